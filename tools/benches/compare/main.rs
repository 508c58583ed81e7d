//! This crate beside others, in one run: `make bench`.
//!
//! Only this tool shows that no work is slower than it was, as a ratio to peers that run at the same time. One server, data in
//! memory where the system has such a place. Each work runs in rounds. In a round every peer has its turn, in an order that
//! rotates, and the round gives the ratio of ours to each peer's (`tools::verdict`). Peers in Java and Python are processes of
//! their own, driven over their standard input. What the works are, and what the figures do not show:
//! `docs/internals/benchmarks.md`.
//!
//! Arguments: `--rounds N` (7), `--seconds S` of each turn (2), `--smoke`, and names of works (all but those of growth;
//! `waiters locks` for those). Without cargo's own
//! `--bench`, which is how `cargo test` starts it, it is a smoke run. `charts` measures nothing and draws the tables that the
//! page has.
#![allow(clippy::disallowed_methods)] // the tasks are owned; these clocks are compared within one process only

mod bench_server;
mod busy;
mod child;
mod comparison;
mod crew;
mod in_process;
mod load;
mod machine;
mod ours;
mod raw;
mod run;
mod settings;
mod stranger;
mod tables;
mod works;

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tools::{Failure, load_average};

use self::bench_server::BenchServer;
use self::settings::Settings;
use self::tables::Table;

fn main() -> Result<(), Failure> {
    // As a service would have it. What is measured runs in spawned tasks, not on this thread.
    let measured = Builder::new_multi_thread().enable_all().build()?;
    if std::env::args().any(|argument| argument == stranger::ARGUMENT) {
        return measured.block_on(stranger::answer());
    }
    let settings = Settings::from_arguments(std::env::args().skip(1))?;
    if settings.charts {
        for table in Table::ALL {
            println!("drawn to {}", table.draw()?.display());
        }
        return Ok(());
    }
    // The proxies have a thread of their own: they are not part of what is measured.
    let proxies = Arc::new(Builder::new_multi_thread().worker_threads(1).enable_all().build()?);
    let done = measured.block_on(compare(&settings, &proxies));
    if let Some(proxies) = Arc::into_inner(proxies) {
        proxies.shutdown_background();
    }
    done
}

async fn compare(settings: &Settings, proxies: &Arc<Runtime>) -> Result<(), Failure> {
    let load_before = load_average();
    let bench_server = BenchServer::set(proxies.clone()).await?;
    let results = run::all(settings, &bench_server).await;
    let backend = bench_server.backend();
    bench_server.close().await?;
    let facts = machine::facts(backend, &load_before);
    let tables = tables::tables(&results?, &facts, settings)?;
    println!("{tables}");
    if let Some(table) = settings.table() {
        println!("written to {}", table.write(&tables)?.display());
        println!("drawn to {}", table.draw()?.display());
    }
    Ok(())
}
