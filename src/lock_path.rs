//! [`LockPath`]: a znode path that was validated once, when the user gave it.
//!
//! Pure: no I/O, no clock.

use std::fmt;
use std::sync::Arc;

use crate::error::Error;

/// An absolute znode path that ZooKeeper and Apache Curator both accept.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LockPath(Arc<str>);

impl LockPath {
    /// Checks `path`. An error names the option that the caller set.
    pub(crate) fn parse(option: &'static str, path: &str) -> Result<Self, Error> {
        match validate(path) {
            Ok(()) => Ok(Self(path.into())),
            Err(reason) => Err(Error::invalid(option, format_args!("{path:?}"), reason).at(path)),
        }
    }

    pub(crate) fn root() -> Self {
        Self("/".into())
    }

    /// The path of the child `name`, which must be a valid segment.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self(self.child(name).into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path of the child `name`, also below the root.
    pub(crate) fn child(&self, name: &str) -> String {
        let parent = if self.is_root() { "" } else { &self.0 };
        format!("{parent}/{name}")
    }

    /// Returns `relative`, an absolute path within `self`, as a path from the root.
    pub(crate) fn join(&self, relative: &LockPath) -> LockPath {
        if relative.is_root() { self.clone() } else { Self(self.child(&relative.0[1..]).into()) }
    }

    pub(crate) fn is_root(&self) -> bool {
        &*self.0 == "/"
    }

    /// The parent's path, or `None` for the root.
    pub(crate) fn parent(&self) -> Option<LockPath> {
        let end = if self.is_root() { None } else { self.0.rfind('/') };
        end.map(|end| Self(if end == 0 { "/".into() } else { self.0[..end].into() }))
    }

    /// This path and its ancestors, the longest first, without the root.
    pub(crate) fn ancestors(&self) -> impl Iterator<Item = &str> {
        let whole = if self.is_root() { "" } else { &*self.0 };
        std::iter::successors(Some(whole), |path| path.rfind('/').map(|end| &path[..end]))
            .take_while(|path| !path.is_empty())
    }
}

impl fmt::Display for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for LockPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Escapes `id` as one segment of a path: characters that a segment cannot have are percent-encoded, as in a URL.
pub(crate) fn escape_segment(id: &str) -> String {
    let is_relative = matches!(id, "." | "..");
    let mut segment = String::with_capacity(id.len());
    for c in id.chars() {
        if is_relative || matches!(c, '/' | '%') || is_forbidden(c) {
            c.to_string().bytes().for_each(|byte| segment += &format!("%{byte:02X}"));
        } else {
            segment.push(c);
        }
    }
    segment
}

/// The inverse of [`escape_segment`]. A segment that was not escaped so, for example by another client, stays as it is.
pub(crate) fn unescape_segment(segment: &str) -> String {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some((before, escaped)) = rest.split_once('%') {
        let digits = escaped.get(..2).filter(|digits| !digits.starts_with('+'));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let Some(byte) = byte else { return segment.to_owned() };
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(byte);
        rest = &escaped[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

fn validate(path: &str) -> Result<(), &'static str> {
    let fault = match path {
        "" => "it is empty",
        "/" => return Ok(()),
        _ if !path.starts_with('/') => "it is not absolute: it must start with '/'",
        _ if path.ends_with('/') => "it ends with '/'",
        _ if path.contains("//") => "it has an empty segment ('//')",
        _ if path.split('/').any(|segment| matches!(segment, "." | "..")) => {
            "it has a relative segment ('.' or '..')"
        }
        _ if path.contains(is_forbidden) => "it has a character that ZooKeeper does not allow",
        _ => return Ok(()),
    };
    Err(fault)
}

/// True for each character that the path check of Apache Curator, of the server or of the client refuses: control
/// characters, the private use area, the specials, and all characters that Java encodes as surrogate pairs.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(path: &str) -> LockPath {
        LockPath::parse("lock path", path).unwrap()
    }

    #[test]
    fn bad_paths_are_refused_with_what_is_wrong_in_them() {
        let table = [
            ("", "empty"),
            ("locks", "absolute"),
            ("locks/orders", "absolute"),
            ("//", "ends with '/'"),
            ("/locks/", "ends with '/'"),
            ("/locks//orders", "empty segment"),
            ("//locks", "empty segment"),
            ("/.", "relative segment"),
            ("/..", "relative segment"),
            ("/locks/./orders", "relative segment"),
            ("/locks/..", "relative segment"),
            ("/locks/\0", "character"),
            ("/lo\u{1}cks", "character"),
            ("/lo\ncks", "character"),
            ("/lo\u{7f}cks", "character"),
            ("/lo\u{85}cks", "character"),
            ("/lo\u{e000}cks", "character"),
            ("/lo\u{ffff}cks", "character"),
            ("/\u{10000}", "character"),
            ("/locks/\u{1f600}", "character"),
            ("/lo\u{10ffff}cks", "character"),
        ];
        for (bad, reason) in table {
            let error = LockPath::parse("lock path", bad).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(reason), "{bad:?}: {text}");
            assert!(text.contains("lock path"), "{bad:?}: {text}");
        }
    }

    #[test]
    fn an_id_is_one_segment() {
        let table = [
            ("4711", "4711"),
            ("a/b", "a%2Fb"),
            ("100%", "100%25"),
            ("..", "%2E%2E"),
            ("a..b", "a..b"),
            ("\u{1f600}\n", "%F0%9F%98%80%0A"),
        ];
        for (id, segment) in table {
            assert_eq!(escape_segment(id), segment);
            assert_eq!(unescape_segment(segment), id);
            assert_eq!(path(&format!("/l/{segment}")).ancestors().count(), 2);
        }
    }

    #[test]
    fn segments_that_were_not_escaped_stay_as_they_are() {
        for segment in ["100%", "%zz", "%f", "%FF", "ünï", "%+1", "a%ü"] {
            assert_eq!(unescape_segment(segment), segment);
        }
    }

    #[test]
    fn good_paths_are_taken_as_they_are() {
        for good in
            ["/", "/a", "/a/b", "/...", "/a/.b", "/a b", "/ünï/cödé", "/zookeeper", "/a:b@c#d"]
        {
            assert_eq!(path(good).as_str(), good);
        }
    }

    #[test]
    fn children_joins_and_ancestors() {
        assert_eq!(path("/").child("x"), "/x");
        assert_eq!(path("/a/b").child("x"), "/a/b/x");
        assert_eq!(path("/").join(&path("/")), path("/"));
        assert_eq!(path("/").join(&path("/a")), path("/a"));
        assert_eq!(path("/a").join(&path("/")), path("/a"));
        assert_eq!(path("/a").join(&path("/b/c")), path("/a/b/c"));
        assert_eq!(path("/a/b").parent(), Some(path("/a")));
        assert_eq!(path("/a").parent(), Some(path("/")));
        assert_eq!(path("/").parent(), None);
        assert_eq!(path("/").ancestors().count(), 0);
        assert_eq!(path("/a").ancestors().collect::<Vec<_>>(), ["/a"]);
        assert_eq!(path("/a/b/c").ancestors().collect::<Vec<_>>(), ["/a/b/c", "/a/b", "/a"]);
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_has_only_proper_segments(text in "[/a.\\PC\\x00]{0,12}") {
            if let Ok(good) = LockPath::parse("lock path", &text) {
                prop_assert!(good.as_str().starts_with('/'));
                prop_assert!(!good.as_str().contains('\0'));
                prop_assert!(good.is_root() || good.as_str()[1..].split('/').all(|s| !matches!(s, "" | "." | "..")));
            }
        }

        #[test]
        fn a_child_of_an_accepted_path_is_accepted(a in "(/[a-z.]{3,5}){0,3}", name in "[a-z_-]{1,9}") {
            let parent = path(if a.is_empty() { "/" } else { &a });
            let child = path(&parent.child(&name));
            prop_assert_eq!(child.ancestors().nth(1).unwrap_or("/"), parent.as_str());
        }
    }
}
