//! The rules, and the conditions of each: what can be switched off to see what breaks.

/// Which GUID an entering uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Guids {
    /// As the crate does: one for each entering, kept only for a create whose outcome is unknown.
    Fresh,
    /// As Curator does: a create whose outcome is unknown keeps it in the next session, too.
    KeptOverSessions,
    /// Always the same.
    OnePerClient,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) owner_check: bool,
    pub(crate) barrier: bool,
    pub(crate) own_watch: bool,
    /// A hold, and who waits in the process, learns sooner or later that its node is gone.
    pub(crate) late_own_watch: bool,
    pub(crate) lease_check: bool,
    /// Wait for the one before, not for the first.
    pub(crate) one_before: bool,
    pub(crate) guids: Guids,
    pub(crate) head: Head,
    /// Who is third or later also watches the one before its predecessor.
    pub(crate) stand_by: bool,
    pub(crate) local: Local,
    pub(crate) gap: Gap,
}

/// The predecessor's deletion admits, with no further listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) on: bool,
    /// The predecessor was the first of the last listing.
    pub(crate) was_first: bool,
    /// That listing followed the own create.
    pub(crate) listed_after_create: bool,
    pub(crate) own_armed_first: bool,
    pub(crate) own_polled_first: bool,
    /// A change of its data does not admit.
    pub(crate) only_deletion: bool,
    pub(crate) no_reconnect: bool,
}

/// The release of a hold of the same session admits, while the delete is on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) on: bool,
    /// A waiter that was not first does not admit when it withdraws.
    pub(crate) only_first: bool,
    pub(crate) same_epoch: bool,
    /// The released hold is no hold any more when the next one begins.
    pub(crate) ended_first: bool,
    /// Who comes to stand between two others is the one that the second waits for.
    pub(crate) neighbours: bool,
    /// Places stand in the order of their transactions, not of their sequence numbers.
    pub(crate) by_transaction: bool,
}

/// A create that gets the very next number, after a listing with nobody else in it, needs no listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    pub(crate) on: bool,
    pub(crate) number_compared: bool,
    pub(crate) parent_watch: ParentWatch,
    pub(crate) watch_polled: bool,
    pub(crate) no_reconnect: bool,
    pub(crate) same_epoch: bool,
    pub(crate) nobody_else: bool,
    /// Places of this session come first, until they are released.
    pub(crate) own_places: bool,
    /// What this session created, but has no answer to yet, counts as somebody else.
    pub(crate) unanswered_is_else: bool,
}

/// When the parent's watch is armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParentWatch {
    BeforeTheListing,
    BehindTheDelete,
    Never,
}

impl Rules {
    pub(crate) const ALL: Self = Self {
        head: Head::ALL,
        stand_by: true,
        local: Local::ALL,
        gap: Gap::ALL,
        ..Self::NO_SAVING
    };

    /// Every decision by a listing.
    pub(crate) const NO_SAVING: Self = Self {
        owner_check: true,
        barrier: true,
        own_watch: true,
        late_own_watch: true,
        lease_check: true,
        one_before: true,
        guids: Guids::Fresh,
        head: Head { on: false, ..Head::ALL },
        stand_by: false,
        local: Local { on: false, ..Local::ALL },
        gap: Gap { on: false, ..Gap::ALL },
    };
}

impl Head {
    pub(crate) const ALL: Self = Self {
        on: true,
        was_first: true,
        listed_after_create: true,
        own_armed_first: true,
        own_polled_first: true,
        only_deletion: true,
        no_reconnect: true,
    };
}

impl Local {
    pub(crate) const ALL: Self = Self {
        on: true,
        only_first: true,
        same_epoch: true,
        ended_first: true,
        neighbours: true,
        by_transaction: true,
    };
}

impl Gap {
    pub(crate) const ALL: Self = Self {
        on: true,
        number_compared: true,
        parent_watch: ParentWatch::BeforeTheListing,
        watch_polled: true,
        no_reconnect: true,
        same_epoch: true,
        nobody_else: true,
        own_places: true,
        unanswered_is_else: true,
    };
}
