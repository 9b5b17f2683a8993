// SPDX-License-Identifier: LGPL-3.0-or-later
//
// The inner process of the supervisor (supervisor.h), from its start to its end. What
// it keeps is in book.h, what it follows in watch.h, whom it answers in requests.h, and
// how it ends the DAT in shutdown.h.
#include "lib/clock.h"
#include "lib/dat/audit.h"
#include "lib/dat/book.h"
#include "lib/dat/jobspec.h"
#include "lib/dat/links.h"
#include "lib/dat/queues.h"
#include "lib/dat/report.h"
#include "lib/dat/requests.h"
#include "lib/dat/shutdown.h"
#include "lib/dat/supervisor.h"
#include "lib/dat/watch.h"

#include <algorithm>
#include <unistd.h>

namespace fluxdat::dat {

namespace {

// Seconds before another try to connect to the parent's broker: the first delay, which
// doubles up to the second.
constexpr double reconnect_delay_min = 0.2, reconnect_delay_max = 10;

class Worker
{
public:
    Worker(flux::Loop& loop, DatFile file)
        : links_(loop, file.adopted), book_(links_, std::move(file.record)),
          reporter_(links_), shutdown_(links_, book_), lookups_(loop), asked_(loop),
          requests_(links_, book_, shutdown_, asked_)
    {
        requests_.evictor_fault = [this] { return watch_->evictor_fault(); };
    }

    flux::Interrupt& end() { return links_.end; }

    // Until the DAT is to end, or has ended.
    flux::Task<Result<>> run()
    {
        auto connected = co_await links_.connect_dat();
        if (!connected && links_.no_broker) {
            complain(connected.error().message);
            co_return Result<>{};
        }
        if (!connected)
            co_return connected;
        speak_for(book_.record().name, links_.id);
        double delay = reconnect_delay_min;
        // Whoever started an adopted instance has its queues as they are to be.
        if (!links_.adopted) {
            auto started = co_await start_queues(*links_.dat);
            if (!started)
                co_return started;
        }
        watch_ = std::make_unique<Watch>(links_, book_, lookups_);
        book_.on_list = [this] { watch_->judge(); };
        book_.on_expiration = [this] { shutdown_.replan(); };
        watch_->start();
        links_.loop.spawn(requests_.learn_owner());
        links_.loop.spawn(reporter_.hourly());
        while (!links_.end.reason()) {
            auto served = co_await serve_parent(delay);
            if (links_.end.reason())
                break;
            if (!served)
                complain(served.error().message);
            (void)co_await links_.loop.sleep(delay, &links_.end); // cut short: it ends
            delay = std::min(delay * 2, reconnect_delay_max);
        }
        // Answers that are still being made end with what they wait for.
        book_.close();
        if (auto& lost = links_.dat->lost(); lost && !links_.lost_dat)
            co_return std::unexpected(*lost);
        links_.dat->close(); // not away yet: they go on with it, and see that it is
                             // lost
        co_return Result<>{};
    }

private:
    // Serves in the parent until the connection to it is lost or the DAT is to end.
    flux::Task<Result<>> serve_parent(double& delay)
    {
        auto parent = co_await flux::Connection::open(links_.loop, links_.parent_uri,
                                                      &links_.end);
        if (!parent)
            co_return std::unexpected(parent.error());
        links_.parent = std::move(*parent);
        auto served = co_await announce();
        if (served) {
            delay = reconnect_delay_min;
            served = co_await book_.follow();
        }
        if (links_.lost_dat)
            co_await end_headless_job();
        else if (links_.end.reason() && !links_.dat->lost() && !links_.parent->lost()
                 && !book_.removed())
            co_await reporter_.finish();
        links_.parent.reset();
        co_return served;
    }

    // Rank 0's broker died under us. The other brokers would go on for minutes until
    // they notice, and hold the nodes.
    flux::Task<void> end_headless_job()
    {
        auto ended = co_await flux::raise(*links_.parent, links_.id, "exec",
                                          flux::severity_fatal,
                                          "the broker of the DAT's rank 0 is gone");
        if (!ended && ended.error().errnum != ENOENT && ended.error().errnum != EINVAL)
            complain(ended.error().message);
    }

    flux::Task<Result<>> announce()
    {
        auto rank = co_await flux::attribute_number(*links_.parent, "rank");
        if (!rank)
            co_return std::unexpected(rank.error());
        auto job = co_await flux::list_job(*links_.parent, links_.id);
        if (!job)
            co_return std::unexpected(job.error());
        links_.nodelist = job->nodelist;
        auto taken = co_await book_.take_up(job->expiration);
        if (!taken)
            co_return taken;
        auto& record = book_.record();
        // A change that was made while it was pending is in force when it is ready.
        // (Not served meanwhile: a change waits for its event, which is followed only
        // then.)
        if (record.state == State::submitted)
            co_await book_.doors().settled(book_.desired().guests().generation);
        auto name = service_name(geteuid(), links_.id);
        auto served = co_await links_.parent->serve(
            name, [this](const flux::Message& request) { requests_.handle(request); });
        if (!served)
            co_return fail("cannot register the service {} in the parent: {}", name,
                           served.error().message);
        record.service_name = name;
        record.service_rank = *rank;
        if (record.state == State::submitted) {
            record.state = State::ready;
            record.ranks_up = links_.size; // or this program would not run yet
        }
        shutdown_.follow(job->t_run);
        co_return co_await book_.announce();
    }

    Links links_;
    Book book_;
    Reporter reporter_;
    Shutdown shutdown_;
    Lookups lookups_, asked_; // whoever asks must not hold up who watches
    Requests requests_;
    std::unique_ptr<Watch> watch_; // once there is a connection to the DAT
};

} // namespace

int supervise_worker(const std::string& dat_file)
{
    auto file = read_dat_file(dat_file);
    if (!file) {
        complain(file.error().message);
        return 1;
    }
    flux::Loop loop;
    Worker worker(loop, std::move(*file));
    // Ended from outside, it has some seconds, in which it posts the report.
    flux::InterruptSources signals(loop, worker.end());
    auto done = loop.run(worker.run());
    if (!done) {
        complain(done.error().message);
        return 1;
    }
    return 0;
}

} // namespace fluxdat::dat
