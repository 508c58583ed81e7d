//! A lock, or a leader, that is broken on purpose, as many a home-made one: it knows its node by the GUID in the name and
//! does not ask whose the node is. When its connection breaks it makes a new session, finds the node of the old one, which
//! the servers have not expired yet, and takes it for its own (CURATOR-604). When they do, the next one gets in.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tools::Result;
use zookeeper_recipes::zookeeper_client::{
    Acls, Client, CreateMode, Error, SessionState, StateWatcher,
};

use crate::checker::Value;
use crate::hold::{Held, decode, encode};
use crate::log::{Counter, Mode, Name, Node, Outcome};
use crate::settings::{COUNTER, LOCK};

pub(crate) struct NaiveLock {
    pub(crate) connect_string: String,
    pub(crate) timeout: Duration,
    /// What it takes itself for.
    pub(crate) mode: Mode,
}

pub(crate) struct NaiveGuard<'a> {
    lock: &'a NaiveLock,
    guid: String,
    /// Of this moment.
    client: Mutex<Client>,
    token: i64,
    node: String,
    session: i64,
}

impl NaiveLock {
    /// In the names of its nodes.
    fn word(&self) -> &'static str {
        if self.mode == Mode::Leader { "latch" } else { "lock" }
    }

    async fn connect(&self) -> Client {
        loop {
            let connector = Client::connector()
                .with_session_timeout(self.timeout)
                .with_connection_timeout(self.timeout)
                // So that dropping it does not close its session, as with a process that has no time for that.
                .with_detached();
            if let Ok(client) = connector.connect(&self.connect_string).await {
                return client;
            }
        }
    }

    pub(crate) async fn acquire(&self, guid: String) -> NaiveGuard<'_> {
        loop {
            let client = self.connect().await;
            if let Ok((token, node)) = enter(&client, &guid, self.word()).await {
                let session = client.session_id().0;
                return NaiveGuard {
                    lock: self,
                    guid,
                    client: Mutex::new(client),
                    token,
                    node,
                    session,
                };
            }
        }
    }
}

/// The names in the queue, by their numbers.
async fn queue(client: &Client) -> Result<Vec<String>, Error> {
    let mut names = client.list_children(LOCK).await?;
    names.sort_by_key(|name| name.rsplit('-').next().unwrap_or_default().to_owned());
    Ok(names)
}

async fn enter(client: &Client, guid: &str, word: &str) -> Result<(i64, String), Error> {
    let mine = |name: &String| name.contains(guid);
    // Here the owner of the node would have to be asked for.
    let name = match queue(client).await?.into_iter().find(mine) {
        Some(name) => name,
        None => {
            let path = format!("{LOCK}/_c_{guid}-{word}-");
            let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
            let (_, sequence) = client.create(&path, &[], &options).await?;
            format!("_c_{guid}-{word}-{sequence}")
        }
    };
    let node = format!("{LOCK}/{name}");
    loop {
        let names = queue(client).await?;
        let place = names.iter().position(|other| *other == name).ok_or(Error::NoNode)?;
        if place == 0 {
            let stat = client.check_stat(&node).await?.ok_or(Error::NoNode)?;
            return Ok((stat.czxid, node));
        }
        let before = format!("{LOCK}/{}", names[place - 1]);
        match client.get_and_watch_data(&before).await {
            Ok((_, _, watcher)) => _ = watcher.changed().await,
            Err(Error::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
}

impl NaiveGuard<'_> {
    fn client(&self) -> Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A new session for every broken connection, and the old node taken over.
    async fn keep(&self) {
        loop {
            let mut states: StateWatcher = self.client().state_watcher();
            while states.changed().await == SessionState::SyncConnected {}
            let client = self.lock.connect().await;
            let names = queue(&client).await.unwrap_or_default();
            *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
            if !names.iter().any(|name| name.contains(&self.guid)) {
                return;
            }
        }
    }

    pub(crate) async fn release(self) -> &'static str {
        match self.client().delete(&self.node, None).await {
            Ok(()) => "Unlocked",
            Err(_) => "Error",
        }
    }
}

impl Held for NaiveGuard<'_> {
    fn name(&self) -> Name {
        Name(self.lock.mode, self.token)
    }

    fn nodes(&self) -> Vec<Node> {
        let (lock, token, path) = (LOCK.to_owned(), self.token, Some(self.node.clone()));
        vec![Node { lock, token, path }]
    }

    fn session(&self) -> i64 {
        self.session
    }

    fn is_held(&self) -> bool {
        true
    }

    fn why(&self) -> String {
        "its node was gone".to_owned()
    }

    async fn lost(&self) {
        self.keep().await;
        // Nobody tells it that its node is gone.
        std::future::pending().await
    }

    fn counts_in(&self, _: Counter) -> bool {
        true
    }

    async fn read_counter(&self) -> Result<Value> {
        decode(&self.client().get_data(COUNTER).await?.0)
    }

    async fn write_counter(&self, number: u64) -> Outcome {
        match self.client().set_data(COUNTER, &encode(number, self.token), None).await {
            Ok(_) => Outcome::Accepted,
            Err(_) => Outcome::Unknown,
        }
    }
}
