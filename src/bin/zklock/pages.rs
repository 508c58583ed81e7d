//! `zklock completions` and `zklock man`.

use std::path::Path;

use clap_complete::Shell;

use crate::arguments::command;
use crate::exit::{Failure, Outcome};
use crate::output::printed;

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(), "zklock", &mut script);
    printed(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(folder: Option<&Path>) -> Outcome {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command())
            .render(&mut page)
            .map_err(|error| Failure::internal(format!("cannot write the page: {error}")))?;
        return printed(&String::from_utf8_lossy(&page));
    };
    clap_mangen::generate_to(command(), folder).map(|()| 0).map_err(|error| {
        Failure::internal(format!("cannot write to {}: {error}", folder.display()))
    })
}
