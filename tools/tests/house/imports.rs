//! Which file takes names from which: downwards only, and never in a circle.

use std::collections::{BTreeMap, BTreeSet};

use super::{Package, Source, code, sources};

/// The library from the top: a file belongs to the first row that names it, or its folder. What no row names lies below.
const LAYERS: &[&str] =
    &["lib simulation/ensemble", "recipes curator", "queue", "session", "client simulation"];

/// What lies below and looks up all the same: clock and chance ask for a simulation, and errors carry that of the client.
const LOOKS_UP: &[(&str, &str)] =
    &[("clock", "simulation/world"), ("random", "simulation/world"), ("error", "client/failure")];

/// For each file those that it takes names from, and which names.
type Imports = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// One crate: its files, by their modules. The root is the module "".
struct Crate<'a>(BTreeMap<String, File<'a>>);

struct File<'a> {
    path: &'a str,
    /// Without what it imports.
    body: String,
    uses: Vec<Use>,
}

struct Use {
    name: String,
    path: String,
    is_private: bool,
}

impl<'a> File<'a> {
    fn new(path: &'a str, text: &str) -> Self {
        let (mut body, mut uses) = (String::new(), Vec::new());
        let code = code(text).replace("(in crate", "(");
        let mut lines = code.lines().map(|line| line.split(" // ").next().unwrap_or_default());
        while let Some(line) = lines.next() {
            let visibilities = ["use ", "pub use ", "pub(crate) use ", "pub(super) use "];
            let starts = |start: &&&str| line.trim_start().starts_with(**start);
            let Some(start) = visibilities.iter().find(starts) else {
                body += &format!("{line}\n");
                continue;
            };
            let mut tree = line.trim_start()[start.len()..].to_owned();
            while !tree.contains(';') {
                tree += lines.next().unwrap_or(";").trim();
            }
            expand(tree.trim_end_matches(';'), "", *start == "use ", &mut uses);
        }
        Self { path, body, uses }
    }
}

/// The single paths of `a::{b, c as d}`, each with the name that it gets.
fn expand(tree: &str, above: &str, is_private: bool, uses: &mut Vec<Use>) {
    let Some((path, list)) = tree.split_once('{') else {
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = format!("{above}{}", path.trim());
        let path = path.trim_end_matches("::self").to_owned();
        let last = path.rsplit("::").next().unwrap_or_default();
        let name = if name.is_empty() { last } else { name.trim() }.to_owned();
        return uses.push(Use { name, path, is_private });
    };
    let (above, mut depth) = (format!("{above}{}", path.trim()), 0);
    let list = list.rsplit_once('}').map_or(list, |(list, _)| list);
    let parts = list.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty());
    parts.for_each(|part| expand(part, &above, is_private, uses));
}

impl Crate<'_> {
    /// The module that defines what `path` means in `module`; none for other crates, and for a module itself.
    fn definer(&self, module: &str, path: &str, patience: usize) -> Option<String> {
        let mut here = module.to_owned();
        let mut names = path.split("::").filter(|name| !name.is_empty());
        let mut is_first = true;
        while let Some(name) = names.next() {
            let below = if here.is_empty() { name.to_owned() } else { format!("{here}/{name}") };
            let file = self.0.get(&here)?;
            if name == "crate" {
                here.clear();
            } else if name == "super" {
                here = here.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
            } else if self.0.contains_key(&below) {
                here = below;
            } else if let Some(found) = file.uses.iter().find(|one| one.name == name) {
                let rest = names.map(|name| format!("::{name}")).collect::<String>();
                let path = found.path.clone() + &rest;
                return self.definer(&here, &path, patience.checked_sub(1)?);
            } else if name != "self" {
                let is_elsewhere = is_first || file.body.contains(&format!("mod {name};"));
                return (!is_elsewhere).then_some(here);
            }
            is_first = false;
        }
        None
    }

    /// What it imports, and what it names by a path or by a name that it hands on.
    fn imports(&self, module: &str, imports: &mut Imports) {
        let file = &self.0[module];
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
        let named = file.body.split(|c| !is_word(c)).map(|word| word.trim_end_matches(':'));
        let mut named: BTreeSet<&str> = named.collect();
        let private = file.uses.iter().filter(|one| one.is_private);
        // What it imported is counted by that.
        let is_item = |one: &&Use| self.definer(module, &one.path, 9).is_some();
        let items: BTreeSet<_> = private.clone().filter(is_item).map(|one| &*one.name).collect();
        named.retain(|path| !items.contains(path.split("::").next().unwrap_or_default()));
        named.extend(private.map(|one| one.path.as_str()));
        let into = imports.entry(file.path.to_owned()).or_default();
        for path in named.into_iter().filter(|path| !path.is_empty()) {
            if let Some(definer) = self.definer(module, path, 9).filter(|one| one != module) {
                let names = into.entry(self.0[&definer].path.to_owned()).or_default();
                names.insert(path.rsplit("::").next().unwrap_or_default().to_owned());
            }
        }
    }
}

fn imports(sources: &[Source]) -> Imports {
    let is_root =
        |source: &&Source| source.path.ends_with("/main") || source.path.ends_with("/lib");
    let folder = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let roots: BTreeSet<_> = sources.iter().filter(is_root).map(|one| folder(&one.path)).collect();
    let mut crates: BTreeMap<_, Crate<'_>> = BTreeMap::new();
    for Source { path, text, .. } in sources {
        let mut root = folder(path);
        while !root.is_empty() && !roots.contains(&root) {
            root = folder(&root);
        }
        let module = path[root.len()..].trim_start_matches('/');
        let module = module.strip_suffix("/mod").unwrap_or(module);
        let module = if matches!(module, "main" | "lib") { "" } else { module };
        let files = crates.entry(root).or_insert(Crate(BTreeMap::new()));
        files.0.insert(module.to_owned(), File::new(path, text));
    }
    // A program of one file takes names from none.
    crates.retain(|_, files| files.0.contains_key(""));
    let mut imports = Imports::new();
    for files in crates.values() {
        files.0.keys().for_each(|module| files.imports(module, &mut imports));
    }
    imports
}

/// What a file reaches by its imports.
fn reached<'a>(imports: &'a Imports, from: &'a str) -> BTreeSet<&'a str> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(names) = next.pop().and_then(|file| imports.get(file)) {
        next.extend(names.keys().map(String::as_str).filter(|file| reached.insert(*file)));
    }
    reached
}

/// A folder is one room: its files may know each other.
fn folder(file: &str) -> &str {
    file.strip_suffix("/mod").unwrap_or(file).rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The circles through several folders, each with what ties it.
fn circles(imports: &Imports) -> Vec<String> {
    let reached: BTreeMap<_, _> =
        imports.keys().map(|file| (file.as_str(), reached(imports, file))).collect();
    let mut circles = BTreeSet::new();
    for (file, below) in &reached {
        let circle: BTreeSet<&str> =
            below.iter().filter(|other| reached[*other].contains(file)).copied().collect();
        if circle.iter().map(|file| folder(file)).collect::<BTreeSet<_>>().len() < 2 {
            continue;
        }
        let ties = circle.iter().flat_map(|from| imports[*from].iter().map(move |to| (from, to)));
        let ties = ties.filter(|(_, (to, _))| circle.contains(to.as_str()));
        let ties = ties.map(|(from, (to, names))| format!("{from} -> {to}: {names:?}"));
        circles.insert(ties.collect::<Vec<_>>().join("\n"));
    }
    circles.into_iter().filter(|circle| !circle.is_empty()).collect()
}

/// The library's arrows that point up.
fn upwards(imports: &Imports) -> Vec<String> {
    let is_in = |file: &str, row: &str| {
        row.split(' ').any(|name| format!("{file}/").starts_with(&format!("{name}/")))
    };
    let layer = |file: &str| LAYERS.iter().position(|row| is_in(file, row)).unwrap_or(LAYERS.len());
    let arrows = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    let up = arrows.filter_map(|(from, (to, names))| {
        let (from, to) = (from.strip_prefix("src/")?, to.strip_prefix("src/")?);
        (layer(from) > layer(to) && !LOOKS_UP.contains(&(from, to)))
            .then(|| format!("{from} is below {to}, and takes {names:?} from it"))
    });
    up.collect()
}

#[test]
fn imports_point_down_and_never_in_a_circle() {
    let imports = imports(&sources());
    let up = upwards(&imports);
    assert!(up.is_empty(), "{up:#?}");
    let circles = circles(&imports);
    assert!(circles.is_empty(), "{}", circles.join("\n\n"));
}

/// The check itself can fail.
#[test]
fn what_points_up_or_in_a_circle_is_found() {
    let found = |files: &[(&str, &str)]| {
        let source = |(path, text): &(&str, &str)| {
            let (path, text) = ((*path).to_owned(), (*text).to_owned());
            Source { package: Package::Library, module: String::new(), path, text }
        };
        let root = ("src/lib", "mod queue;\nmod session;\npub use self::queue::Hold;");
        let imports = imports(&files.iter().chain([&root]).map(source).collect::<Vec<_>>());
        (upwards(&imports), circles(&imports))
    };
    let (up, circles) =
        found(&[("src/queue", "struct Hold;"), ("src/session/lease", "use crate::queue::Hold;")]);
    assert_eq!((up.len(), circles.len()), (1, 0));
    let seat = ("src/queue/seat", "use super::Queue;\nstruct Seat;");
    for (queue, circles) in [
        // By its own name, by an inline path, and by one that is handed on and used.
        ("mod seat;\nuse self::seat::{self, Seat as Own};\nstruct Queue(Own);", 1),
        ("mod seat;\nstruct Queue(seat::Seat);", 1),
        ("mod seat;\npub use self::seat::Seat;\nstruct Queue(Seat);", 1),
        // Handed on only, in documentation, of another crate.
        (
            "mod seat;\npub use self::seat::Seat;\n/// [`crate::queue::seat::Seat`]\nstruct Queue;",
            0,
        ),
        ("mod seat;\nuse tokio::sync::Seat;\nstruct Queue(Seat);", 0),
    ] {
        let found = found(&[("src/queue/mod", queue), seat]);
        assert_eq!((found.0.len(), found.1.len()), (0, circles), "{queue}");
    }
}
