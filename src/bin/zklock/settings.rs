use crate::exit::Failure;
pub(crate) struct Settings {
    pub v: bool,
    pub server: String,
    pub t: std::time::Duration,
}
impl Settings {
    pub(crate) fn read(a: &crate::arguments::Connection) -> Result<Self, Failure> {
        Ok(Self {
            v: a.verbose,
            server: a.server.clone().unwrap_or("localhost:2181".into()),
            t: a.session_timeout.unwrap_or(std::time::Duration::from_secs(30)),
        })
    }
    pub(crate) fn verbose(&self) -> bool {
        self.v
    }
}
