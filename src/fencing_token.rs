//! [`FencingToken`]: a number that tells a newer hold from an older one.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// Lets the resource that a lock protects reject a holder that has lost the lock.
///
/// Pass the token with each write, and reject a token smaller than the largest one seen. Then a holder that does not know
/// of its loss yet does no harm once its successor has written. Writes to ZooKeeper itself need no token: see
/// [`Hold::fenced`](crate::Hold::fenced).
///
/// Tokens of one lock path never decrease, and grow whenever the lock passes between processes (invariant 4), even if
/// the path was deleted and created again. Holds that tasks of one process pass on to each other share one token. A
/// token is the `czxid`, the transaction that created the hold's node.
///
/// A token is a positive 63-bit number. Pass it through a database with [`value`](Self::value) and `TryFrom<i64>`,
/// and as text with `Display` and `FromStr`.
///
/// ```
/// use zookeeper_recipes::FencingToken;
///
/// # fn main() -> Result<(), zookeeper_recipes::Error> {
/// let seen: FencingToken = "8589934597".parse()?;
/// let token = FencingToken::try_from(8_589_934_601)?;
/// assert!(token > seen);
/// assert_eq!(token.to_string(), "8589934601");
/// assert!("-1".parse::<FencingToken>().is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    pub(crate) const fn new(czxid: i64) -> Self {
        Self(czxid)
    }

    /// The token as a number. ZooKeeper's transaction ids are positive.
    pub const fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn invalid(value: String) -> Error {
    let reason = "it must be a positive decimal number of at most 63 bits";
    Error::invalid("fencing token", value, reason)
}

impl TryFrom<i64> for FencingToken {
    type Error = Error;

    fn try_from(value: i64) -> Result<Self, Error> {
        if value > 0 { Ok(Self(value)) } else { Err(invalid(value.to_string())) }
    }
}

/// Parses the output of `Display`: digits only.
impl FromStr for FencingToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(value @ 1..) if is_plain => Ok(Self(value)),
            _ => Err(invalid(format!("{:?}", text.chars().take(40).collect::<String>()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_token_is_refused() {
        let texts =
            ["", "0", "00", "-1", "+1", " 1", "1 ", "0x10", "١", "9223372036854775808", "1e3"];
        for text in texts {
            let error = text.parse::<FencingToken>().unwrap_err();
            assert!(error.to_string().contains("fencing token"), "{text:?}: {error}");
        }
        assert!(FencingToken::try_from(0).is_err());
        assert!(FencingToken::try_from(i64::MIN).is_err());
    }

    proptest! {
        #[test]
        fn text_and_number_keep_token_and_order(a in 1..=i64::MAX, b in 1..=i64::MAX) {
            let x = FencingToken::try_from(a).unwrap();
            let y = FencingToken::try_from(b).unwrap();
            prop_assert_eq!(x.to_string().parse::<FencingToken>().unwrap(), x);
            prop_assert_eq!(FencingToken::try_from(x.value()).unwrap(), x);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }
    }
}
