//! Parses an ACL, as ZooKeeper's own shell does.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zookeeper_recipes::zookeeper_client::{Acl, AuthId, Permission};

use crate::exit::Failure;

const LETTERS: [(char, Permission); 5] = [
    ('c', Permission::CREATE),
    ('d', Permission::DELETE),
    ('r', Permission::READ),
    ('w', Permission::WRITE),
    ('a', Permission::ADMIN),
];

/// Parses `scheme:id:perms`. The id may contain colons.
pub(super) fn parse(spec: &str) -> Result<Acl, Failure> {
    let parsed = spec.split_once(':').and_then(|(scheme, rest)| {
        let (id, letters) = rest.rsplit_once(':').filter(|_| !scheme.is_empty())?;
        Some((scheme, id, letters, permissions(letters)?))
    });
    let Some((scheme, id, letters, permissions)) = parsed else {
        // The rest of this scheme may be a password.
        let shown = if spec.starts_with("digest:") { "digest:…" } else { spec };
        let example = "such as sasl:batch:cdrwa, or auth::cdrwa for the credentials of this client";
        return Err(Failure::usage(format!("acl {shown}: no scheme:id:perms, {example}")));
    };
    if scheme == "digest"
        && let Some(right) = id_in_place_of(id)
    {
        return Err(Failure::usage(format!(
            "acl digest:…:{letters}: its id has base64 of a SHA-1 in place of the password, and no client could use the \
             znodes: write digest:{right}:{letters}, or auth::{letters} for the credentials of this client"
        )));
    }
    Ok(Acl::new(permissions, AuthId::new(scheme, id)))
}

/// Returns the sum of the letters' permissions; `None` without letters, or with an unknown one.
fn permissions(letters: &str) -> Option<Permission> {
    let each = letters.chars().map(|one| LETTERS.iter().find(|(letter, _)| *letter == one));
    each.map(|found| Some(found?.1)).reduce(|all, one| Some(all? | one?))?
}

/// Returns the id that was meant if this one is not `USER:HASH`, as a server compares it.
fn id_in_place_of(id: &str) -> Option<String> {
    let Some((user, secret)) = id.split_once(':').filter(|(user, _)| !user.is_empty()) else {
        return Some("USER:HASH".to_owned());
    };
    if STANDARD.decode(secret).is_ok_and(|hash| hash.len() == SHA1_OUTPUT_LEN) {
        return None;
    }
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, id.as_bytes());
    Some(format!("{user}:{}", STANDARD.encode(hash)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acl_has_a_scheme_an_id_and_permissions() {
        for spec in
            ["world:anyone:cdrwa", "auth::r", "ip:::1:r", "sasl:batch:cdrwa", "x509:CN=a,O=b:cr"]
        {
            assert!(parse(spec).is_ok(), "{spec}");
        }
        for spec in ["", ":", "::", "world:anyone", "world:anyone:", "world:anyone:x", ":a:r"] {
            let said = parse(spec).unwrap_err().to_string();
            assert!(said.starts_with(&format!("acl {spec}: no scheme:id:perms")), "{said}");
        }
    }

    /// The hashes are those of `DigestAuthenticationProvider`.
    #[test]
    fn a_password_in_place_of_its_hash_is_refused_and_the_hash_is_shown() {
        assert!(parse("digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa").is_ok());
        let rows = [
            (
                "digest:bob:hunter2:cdrwa",
                "write digest:bob:1Yu1ryCXOIF7lyFzbmQ5J+MJOZc=:cdrwa, or auth::cdrwa",
            ),
            // A password may contain a colon.
            (
                "digest:bob:hunter2:x:r",
                "write digest:bob:y+MeUzrSVcb6kKK/gp04yaR4k2Q=:r, or auth::r",
            ),
            // It is not the hash in another form.
            ("digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM:r", "write digest:bob:"),
            ("digest:bob:8a421a2ac6ed1b079a1e76ff8ca9fb387a9bba73:r", "write digest:bob:"),
            ("digest:bob:aGFzaA==:r", "write digest:bob:"),
            ("digest:bob::r", "write digest:bob:"),
            ("digest:hunter2:r", "write digest:USER:HASH:r,"),
            ("digest::hunter2:r", "write digest:USER:HASH:r,"),
            ("digest::r", "write digest:USER:HASH:r,"),
            ("digest:bob:hunter2:x", "acl digest:…: no scheme:id:perms"),
            ("digest:bob:hunter2", "acl digest:…: no scheme:id:perms"),
        ];
        for (spec, expected) in rows {
            let failure = parse(spec).unwrap_err();
            let said = failure.to_string();
            assert!(said.contains(expected) && !said.contains("hunter2"), "{spec}: {said}");
            assert_eq!(failure.code(), crate::exit::USAGE);
        }
    }
}
