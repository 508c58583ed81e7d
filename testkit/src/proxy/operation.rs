//! The operations of the client protocol.

/// The operation that a request asks for, or that a reply answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// Every request, and every reply to one, except handshakes and pings.
    Any,
    /// The handshake, the first message of a connection either way.
    Connect,
    /// A node of any kind is created.
    Create,
    /// A node is deleted.
    Delete,
    /// A node's existence is checked.
    Exists,
    /// A node's data are read.
    GetData,
    /// A node's data are written.
    SetData,
    /// Children are listed, with or without their parent's stat.
    List,
    /// A member catches up with the leader.
    Sync,
    /// The client's sign of life.
    Ping,
    /// Several writes are made, all or none.
    Multi,
    /// Watches are set again, after a reconnection.
    SetWatches,
    /// A persistent watch is set.
    AddWatch,
    /// Watches are removed.
    RemoveWatches,
    /// Credentials are sent.
    Auth,
    /// The session is ended.
    CloseSession,
    /// A watch has fired: a message of the server that answers no request. [`Any`](Self::Any) leaves it out.
    Event,
    /// Another request, by the number that the protocol gives it.
    Other(i32),
}

impl Operation {
    pub(super) fn of(code: i32) -> Self {
        match code {
            1 | 15 | 19 | 21 => Self::Create,
            2 => Self::Delete,
            3 => Self::Exists,
            4 => Self::GetData,
            5 => Self::SetData,
            8 | 12 => Self::List,
            9 => Self::Sync,
            11 => Self::Ping,
            14 => Self::Multi,
            101 | 105 => Self::SetWatches,
            106 => Self::AddWatch,
            18 => Self::RemoveWatches,
            100 => Self::Auth,
            -11 => Self::CloseSession,
            other => Self::Other(other),
        }
    }

    /// Returns true if `self`, as a test names it, means the message `seen`.
    pub(super) fn means(self, seen: Self) -> bool {
        match self {
            Self::Any => !matches!(seen, Self::Connect | Self::Ping | Self::Event),
            Self::Other(code) => Self::of(code) == seen,
            asked => asked == seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Operation;

    #[test]
    fn one_operation_has_several_numbers() {
        for (code, operation) in [
            (1, Operation::Create),
            (15, Operation::Create),
            (19, Operation::Create),
            (21, Operation::Create),
            (8, Operation::List),
            (12, Operation::List),
            (101, Operation::SetWatches),
            (105, Operation::SetWatches),
            (-11, Operation::CloseSession),
            (6, Operation::Other(6)),
        ] {
            assert_eq!(Operation::of(code), operation, "{code}");
            assert!(operation.means(Operation::of(code)), "{code}");
            assert!(Operation::Other(code).means(operation), "{code}");
            assert!(Operation::Any.means(operation), "{code}");
            assert!(!Operation::Delete.means(operation), "{code}");
        }
        for operation in [Operation::Ping, Operation::Connect, Operation::Event] {
            assert!(!Operation::Any.means(operation), "{operation:?}");
            assert!(operation.means(operation));
        }
    }
}
