//! What a listing costs: names are parsed and one contender is admitted or not, among 10 to 100,000 children. Needs no
//! server. Criterion's throughput is children a second; it is to be the same for any number of them.
#![allow(missing_docs)] // Criterion's macros

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

// Private in the crate, and pure: the same sources, compiled once more.
#[allow(dead_code, unused_imports, unreachable_pub, missing_debug_implementations)]
#[path = "../../src/queue/rules/mod.rs"]
mod rules;

use self::rules::admission::{Family, decide};
use self::rules::filter::ContenderFilter;
use self::rules::node_name::{Kind, sequence_of};

const COUNTS: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];

/// Their sequences in no order, as a server lists them; in memory one after the other, as they are read.
fn children(count: usize) -> Vec<String> {
    let mut random = fastrand::Rng::with_seed(7);
    let mut sequences: Vec<_> = (0..count).collect();
    random.shuffle(&mut sequences);
    sequences.into_iter().map(|sequence| child(&mut random, sequence)).collect()
}

fn child(random: &mut fastrand::Rng, sequence: usize) -> String {
    let guid = uuid::Uuid::from_u128(random.u128(..));
    format!("_c_{guid}-lock-{sequence:010}")
}

/// With all children, and the name of the last one in the queue.
fn group(criterion: &mut Criterion, name: &str, work: fn(&[String], &str)) {
    let mut group = criterion.benchmark_group(name);
    for count in COUNTS {
        let children = children(count);
        let last = format!("lock-{:010}", count - 1);
        let mine = children.iter().find(|name| name.ends_with(&last)).cloned().unwrap_or_default();
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(BenchmarkId::from_parameter(count), |bench| {
            bench.iter(|| work(black_box(&children), black_box(&mine)));
        });
    }
    group.finish();
}

fn listing(criterion: &mut Criterion) {
    group(criterion, "parse", |children, _| {
        black_box(children.iter().filter_map(|name| sequence_of(name, Kind::Lock)).max());
    });
    group(criterion, "admit", |children, mine| {
        black_box(decide(children, mine, &Family::Exclusive(ContenderFilter::Curator)));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = listing
}
criterion_main!(benches);
