//! The participants of an election in the answer of a peer: one word for each, whatever characters the id has.

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Leads,
    Waits,
    /// kazoo does not tell more than the order.
    Contends,
}

const ROLES: [(Role, &str); 3] =
    [(Role::Leads, "leads"), (Role::Waits, "waits"), (Role::Contends, "contends")];

/// The word.
pub(crate) fn named(role: Role, digits: &str) -> String {
    let (_, name) = ROLES.iter().find(|(one, _)| *one == role).expect("all roles");
    format!("{name}={digits}")
}

/// The role and the id.
pub(crate) fn parsed(word: &str) -> (Role, String) {
    let (name, digits) = word.split_once('=').expect("a role and an id");
    let (role, _) = ROLES.iter().find(|(_, one)| *one == name).expect("a role");
    (*role, String::from_utf8(from_digits(digits).unwrap()).expect("text"))
}

/// Hexadecimal.
pub(crate) fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn from_digits(digits: &str) -> Result<Vec<u8>> {
    let byte = |place| Ok(u8::from_str_radix(digits.get(place..place + 2).ok_or("odd")?, 16)?);
    (0..digits.len()).step_by(2).map(byte).collect()
}
