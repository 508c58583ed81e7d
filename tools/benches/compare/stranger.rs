//! This crate in a second process, whose sessions are strangers to those of the first.
//!
//! As the other peers it answers questions, a line each; times in nanoseconds:
//!
//! * `holds SERVERS PATH TASKS HOLD TURN RECIPE`: of tasks with a session each, acquired, released, acquired, …
//! * `first SERVERS PATH COUNT RECIPE`: mean acquisition of `PATH/0` and so on, mean release

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, stdin};
use tools::Failure;

use crate::load::{Load, Recipe};
use crate::ours::Ours;

/// Makes this executable a stranger.
pub(crate) const ARGUMENT: &str = "--stranger";

/// Until the input ends.
pub(crate) async fn answer() -> Result<(), Failure> {
    let mut ours = Ours::default();
    let mut questions = BufReader::new(stdin()).lines();
    while let Some(question) = questions.next_line().await? {
        match times(&mut ours, &question).await {
            Ok(times) => {
                let times: Vec<_> = times.iter().map(|time| time.as_nanos().to_string()).collect();
                println!("{}", times.join(" "));
            }
            Err(error) => println!("{error}"),
        }
    }
    ours.close().await;
    Ok(())
}

async fn times(ours: &mut Ours, question: &str) -> Result<Vec<Duration>, Failure> {
    let words: Vec<_> = question.split(' ').collect();
    let recipe = if words.last() == Some(&"retained") { Recipe::Retained } else { Recipe::Mutex };
    match words[..] {
        ["holds", link, path, tasks, hold, turn, _] => {
            let tasks = tasks.parse()?;
            let [hold, turn] = [hold.parse()?, turn.parse()?].map(Duration::from_nanos);
            let load = Load { recipe, tasks, locks: 1, sessions: tasks, hold, turn };
            let holds = ours.holds(link, path, load).await?;
            Ok(holds.into_iter().flat_map(|held| [held.acquired, held.released]).collect())
        }
        ["first", link, place, count, _] => {
            let (acquired, released) = ours.first(link, place, count.parse()?, recipe).await?;
            Ok(vec![acquired, released])
        }
        _ => Err(format!("unknown: {question}").into()),
    }
}
