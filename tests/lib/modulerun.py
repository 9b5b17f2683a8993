#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-or-later
"""modulerun.py RESULTS MODULE

Runs one unittest module (tests.sandbox.test_start) and writes to RESULTS, as it goes,
one JSON object a line: {"event": "start"|"pass"|"fail"|"skip", "id": ..., "text": ...}.
So the runner knows what ran, and what was running when the module hung or crashed.
"""

import faulthandler
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))


class Lines(unittest.TestResult):
    def __init__(self, file):
        super().__init__()
        self.file = file
        self.failed = set()

    def write(self, event, test, text=""):
        print(json.dumps({"event": event, "id": test.id(), "text": text}), file=self.file)
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.write("start", test)

    def fail(self, test, err):
        # A test that fails twice (in its body and in its clean-up) is one failure.
        event = "more" if test.id() in self.failed else "fail"
        self.failed.add(test.id())
        self.write(event, test, self._exc_info_to_string(err, test))

    def addSuccess(self, test):
        super().addSuccess(test)
        if test.id() not in self.failed:
            self.write("pass", test)

    def addFailure(self, test, err):
        self.fail(test, err)

    def addError(self, test, err):
        self.fail(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            text = f"{subtest._subDescription()}\n{self._exc_info_to_string(err, test)}"
            event = "more" if test.id() in self.failed else "fail"
            self.failed.add(test.id())
            self.write(event, test, text)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.write("skip", test, reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.write("pass", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.write("fail", test, "was expected to fail and passed")


def main():
    faulthandler.enable()
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        result = Lines(file)
        suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[2])
        suite.run(result)
    sys.exit(1 if result.failed else 0)


if __name__ == "__main__":
    main()
