//! The cases of the product: which fault, at which request.

use zookeeper_recipes_dev::{Message, Operation};

/// The parts of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server never sees the request.
    LostRequest,
    /// The server does it, and nobody is told.
    LostReply,
    /// The request, and all behind it on its connection, is held until the client gives the connection up.
    Held,
    /// From the request on the link is dead, until the session is over or the function has returned.
    DeadLink,
    /// The connection ends behind the request.
    CutBehind,
    /// The connection ends in the middle of the request: a simulated message has none.
    CutWithin,
    /// The caller goes away while the request is on its way …
    DroppedBeforeRequest,
    /// … and while the reply is.
    DroppedBeforeReply,
}

impl Fault {
    pub(crate) const ALWAYS: [Fault; 7] = [
        Fault::LostRequest,
        Fault::LostReply,
        Fault::Held,
        Fault::DeadLink,
        Fault::CutBehind,
        Fault::DroppedBeforeRequest,
        Fault::DroppedBeforeReply,
    ];
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Case {
    Calm,
    Dropped {
        polls: usize,
    },
    At {
        place: Place,
        fault: Fault,
    },
    /// Answered by a follower that does not know yet what the leader has done.
    Lagging {
        place: Place,
    },
    /// Once the reply there is lost, which brings requests about that there would not be otherwise.
    After {
        lost: Place,
        place: Place,
        fault: Fault,
    },
}

/// The n-th request of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) operation: Operation,
    pub(crate) nth: usize,
}

impl Place {
    pub(crate) fn request(self) -> Message {
        Message::request(self.operation).nth(self.nth)
    }

    pub(crate) fn reply(self) -> Message {
        Message::reply(self.operation).nth(self.nth)
    }
}

pub(crate) fn places(requests: &[Operation]) -> impl Iterator<Item = Place> {
    requests.iter().enumerate().map(|(at, &operation)| {
        let nth = requests[..=at].iter().filter(|earlier| **earlier == operation).count();
        Place { operation, nth }
    })
}
