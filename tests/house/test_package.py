# SPDX-License-Identifier: LGPL-3.0-or-later
"""The Debian package: what is in it, and what is left when it is purged.

It is built in this tree, from what is compiled in the build directory already, so only
what knows the prefix is compiled again. The tree and, for installing and purging, this
very system are seen as copies (overlays), so that nothing of it stays, and what it leaves
behind shows. Both take root.
"""

import os
import pathlib
import shutil
import stat
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FLUX_DAT_TEST_BUILD", TOP / "build"))
ROOT = os.geteuid() == 0
IMP = "/usr/libexec/flux-dat/flux-dat-imp"


def run(*command, **options):
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options
    )


NO_OVERLAY = 77  # exit status
# Arguments: the tree, its build directory, an empty directory, where the package goes.
BUILD_IT = f"""
set -e
mount -t tmpfs tmpfs "$3"
mkdir "$3/upper" "$3/work"
mount -t overlay overlay -o "lowerdir=$1,upperdir=$3/upper,workdir=$3/work" "$1" ||
    exit {NO_OVERLAY}
cd "$1"
meson configure "$2" -Dprefix=/usr -Dsysconfdir=/etc -Dlibexecdir=libexec -Dsetuid=false -Dtests=false
DH_OPTIONS="-O--destdir=$4" dpkg-buildpackage --no-pre-clean --rules-target=build,binary
"""


@unittest.skipUnless(ROOT, "needs root, for a copy of this system")
@unittest.skipUnless(shutil.which("dh"), "there is no debhelper here")
class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="package-"))
        cls.addClassCleanup(shutil.rmtree, cls.place)
        cls.place.chmod(0o755)
        for name in ("layers", "out"):
            (cls.place / name).mkdir()
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(cls.place),
            "LC_ALL": "C.UTF-8",
            "DEB_BUILD_OPTIONS": "nocheck noautodbgsym parallel=2",
        }
        built = run(
            "unshare", "--mount", "sh", "-c", BUILD_IT, "sh",
            TOP, BUILD, cls.place / "layers", cls.place / "out", env=environment,
        )  # fmt: skip
        if built.returncode == NO_OVERLAY:
            raise unittest.SkipTest("no overlay can be mounted here")
        if built.returncode:
            raise AssertionError("\n".join(built.stdout.splitlines()[-60:]))
        [cls.package] = (cls.place / "out").glob("flux-dat_*.deb")
        cls.files = cls.place / "files"
        extracted = run("dpkg-deb", "--extract", cls.package, cls.files)
        assert extracted.returncode == 0, extracted.stdout

    def field(self, name):
        return run("dpkg-deb", "--field", self.package, name).stdout.strip()

    def test_what_is_in_it(self):
        for path in (
            "usr/bin/flux-dat",
            "usr/libexec/flux-dat/flux-dat-imp",
            "usr/libexec/flux-dat/flux-dat-imp-reader",
            "usr/libexec/flux-dat/flux-dat-shell",
            "usr/share/bash-completion/completions/flux-dat",
            "usr/share/doc/flux-dat/README.Debian",
            "usr/share/doc/flux-dat/examples/crontab",
            "usr/share/doc/flux-dat/examples/flux-dat-beamline.service",
            "usr/share/doc/flux-dat/examples/flux-dat-beamline.timer",
            "usr/share/doc/flux-dat/examples/site.toml",
            "usr/share/flux-dat/multiuser.toml",
            "usr/share/flux/help.d/dat.json",
            "usr/share/man/man1/flux-dat.1.gz",
            "usr/share/man/man5/flux-config-dat.5.gz",
            "usr/share/man/man8/flux-dat-imp.8.gz",
        ):
            self.assertTrue((self.files / path).is_file(), path)
        everything = [str(path) for path in self.files.rglob("*")]
        self.assertFalse([path for path in everything if "test" in path], "nothing of the tests")
        self.assertFalse((self.files / "etc").exists(), "no configuration")

    def test_nothing_has_a_setuid_bit(self):
        for path in self.files.rglob("*"):
            self.assertFalse(
                path.lstat().st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH), path
            )

    def test_what_it_needs(self):
        needs = self.field("Depends")
        self.assertIn("libc6", needs)
        self.assertIn("libmunge2", needs)
        self.assertNotIn("flux", needs)
        self.assertNotIn("libstdc++", needs)

    def test_the_program_says_its_version(self):
        ran = run(self.files / "usr/bin/flux-dat", "--version")
        self.assertEqual(ran.stdout, f"flux-dat {self.field('Version')}\n")

    def test_installs_and_purges_clean(self):
        layers = self.place / "system"
        for name in ("upper", "work", "root"):
            (layers / name).mkdir(parents=True)
        script = f"""
            set -e
            mount -t tmpfs tmpfs {layers}/work
            mkdir {layers}/work/upper {layers}/work/work
            mount -t overlay overlay -o lowerdir=/,upperdir={layers}/work/upper,\
workdir={layers}/work/work {layers}/root || exit {NO_OVERLAY}
            mount --bind /dev {layers}/root/dev
            cp {self.package} {layers}/root/flux-dat.deb
            find_new() {{ (cd {layers}/work/upper && find . ! -type d ! -path ./flux-dat.deb \
                ! -path './var/lib/dpkg/*' ! -path './var/log/*' ! -path './var/cache/*' | sort); }}
            chroot {layers}/root dpkg --force-depends -i /flux-dat.deb >/dev/null
            test -x {layers}/root/usr/bin/flux-dat
            chroot {layers}/root dpkg-statoverride --update --add root root 4755 {IMP}
            chroot {layers}/root stat -c %a {IMP}
            chroot {layers}/root dpkg -P flux-dat >/dev/null 2>&1
            chroot {layers}/root dpkg-statoverride --list {IMP} || echo no override
            find_new
        """
        ran = run("unshare", "--mount", "sh", "-c", script)
        if ran.returncode == NO_OVERLAY:
            self.skipTest("no overlay of this system can be mounted")
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertEqual(ran.stdout, "4755\nno override\n")

