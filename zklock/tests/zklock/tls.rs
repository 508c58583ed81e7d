//! The causes of a failed TLS handshake: a table of files, on a real server with TLS.

use std::path::Path;

use futures_util::{StreamExt, stream};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use zookeeper_testkit::{Backend, TestServer};

use crate::support::scene::{Scene, skipped};

type Authority = CertifiedIssuer<'static, KeyPair>;

/// What a certificate is valid for, as years.
const ALWAYS: (i32, i32) = (2020, 2100);
const IN_THE_PAST: (i32, i32) = (2020, 2021);
const IN_THE_FUTURE: (i32, i32) = (2098, 2100);

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A certificate for a server or a client, and its key.
fn signed(by: &Authority, (from, to): (i32, i32)) -> (String, String) {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    params.not_before = date_time_ymd(from, 1, 1);
    params.not_after = date_time_ymd(to, 1, 1);
    let key = KeyPair::generate().unwrap();
    (params.signed_by(&key, by).unwrap().pem(), key.serialize_pem())
}

/// A server that has the certificate in this file, and trusts the authority in the other.
async fn server(store: &Path, authority: &Path) -> Option<TestServer> {
    let builder = TestServer::builder().mutual_tls().backend(Backend::Process);
    let builder = builder.property("ssl.keyStore.location", store.display().to_string());
    let builder = builder.property("ssl.trustStore.location", authority.display().to_string());
    match builder.start().await {
        Ok(server) => Some(server),
        Err(error) => {
            skipped(&format!("no server with TLS, {error}"));
            None
        }
    }
}

/// Server | `--tls-ca` | `--tls-cert` and `--tls-key` | exit code | words of the one line; `~` is a blank within a word. But for the
/// plain port, which a server with too many connections looks like, a refusal does not wait for the connection timeout.
const TABLE: &str = r#"
{good} | ours.pem | client.pem client.key | 3 |
{good} | ours.pem | | 69 | {good}~asks~for~a~client~certificate:~give~one~by~--tls-cert~and~--tls-key
{good} | theirs.pem | client.pem client.key | 69 | {good}~has~a~certificate~of~an~unknown~issuer:~theirs.pem~(--tls-ca)
{good} | ours.pem | old.pem old.key | 69 | {good}~refuses~the~certificate~in~old.pem~(--tls-cert):~alert
{good} | ours.pem | early.pem early.key | 69 | {good}~refuses~the~certificate~in~early.pem~(--tls-cert):~alert
{good} | ours.pem | foreign.pem foreign.key | 69 | {good}~refuses~the~certificate~in~foreign.pem~(--tls-cert):~alert
{other} | ours.pem | client.pem client.key | 69 | {other}~has~a~certificate~that~cannot~be~trusted: not~valid~for~name~"localhost" 127.0.0.1
{old} | ours.pem | client.pem client.key | 69 | {old}~has~a~certificate~that~cannot~be~trusted: expired
{early} | ours.pem | client.pem client.key | 69 | {early}~has~a~certificate~that~cannot~be~trusted: not~valid~yet
{plain} | ours.pem | client.pem client.key | 69 | {plain}~is~not~a~TLS~port
{good} | ours.pem | client.pem old.key | 64 | the~key~in~old.key~(--tls-key)~does~not~fit~the~certificate~in~client.pem~(--tls-cert)
{good} | ours.pem | client.pem empty | 64 | empty~cannot~be~used~for~TLS:~there~is~no~private~key
{good} | ours.pem | empty client.key | 64 | empty~cannot~be~used~for~TLS:~there~is~no~certificate
{good} | ours.pem | client.key client.key | 64 | client.key~cannot~be~used~for~TLS:~there~is~no~certificate
{good} | ours.pem | client.pem missing | 64 | missing~cannot~be~used~for~TLS
{good} | empty | client.pem client.key | 64 | empty~cannot~be~used~for~TLS:~there~is~no~certificate~of~an~authority
"#;

#[tokio::test(flavor = "multi_thread")]
async fn each_cause_is_named_by_run_and_by_check() {
    let scene = Scene::new().await;
    let ours = authority("ours");
    let theirs = authority("theirs");
    let certificates = [
        ("client", signed(&ours, ALWAYS)),
        ("old", signed(&ours, IN_THE_PAST)),
        ("early", signed(&ours, IN_THE_FUTURE)),
        ("foreign", signed(&theirs, ALWAYS)),
    ];
    for (name, (certificate, key)) in &certificates {
        scene.file(&format!("{name}.pem"), certificate);
        scene.file(&format!("{name}.key"), key);
        scene.file(&format!("{name}-store.pem"), format!("{certificate}{key}"));
    }
    let trusted = scene.file("ours.pem", ours.pem());
    scene.file("theirs.pem", theirs.pem());
    scene.file("empty", "");
    let store = |name: &str| scene.folder.join(format!("{name}-store.pem"));
    let stores = ["client", "old", "early"].map(store);
    let [good, old, early] = stores.each_ref().map(|store| server(store, &trusted));
    let (Some(good), Some(old), Some(early)) = tokio::join!(good, old, early) else { return };
    let address = |server: &TestServer| server.connect_string().replace("tcp+tls://", "");
    let names = [
        ("{good}", address(&good)),
        ("{other}", address(&good).replace("127.0.0.1", "localhost")),
        ("{old}", address(&old)),
        ("{early}", address(&early)),
        ("{plain}", good.plain_connect_string().to_owned()),
    ];
    let filled = |text: &str| {
        let text = text.replace('~', " ");
        names.iter().fold(text, |text, (name, value)| text.replace(name, value))
    };
    let address_of_plain = good.plain_connect_string();
    let check = async |row: &str| {
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [server, authority, identity, code, words] = columns[..] else { panic!("{row}") };
        let server = filled(server);
        let patience = if server == address_of_plain { "3s" } else { "1h" };
        let zklock = |command: &[&str]| {
            let tool = scene.zklock(["--server", &server, "--connection-timeout", patience]);
            let tool = tool.args(["--tls-ca", authority]);
            let files = ["--tls-cert", "--tls-key"].iter().zip(identity.split_whitespace());
            files.fold(tool, |tool, (option, file)| tool.args([option, file])).args(command)
        };
        let words: Vec<_> = words.split_whitespace().map(filled).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let ended = zklock(&["run", &scene.path, "-c", "exit 3"]).ended().await;
        let checked = zklock(&["check"]).ended().await;
        println!("{row}: {ended}; {checked}");
        let code: i32 = code.parse().unwrap();
        match code {
            3 => {
                ended.quietly(3);
                checked.quietly(0);
            }
            64 => {
                ended.one_line(64, &words);
                checked.one_line(64, &words);
            }
            _ => {
                ended.one_line(code, &words);
                let waits = zklock(&["run", &scene.path, "-w", "1h", "-c", "exit 3"]);
                if server != address_of_plain {
                    waits.ended().await.one_line(code, &words);
                }
                checked.quietly(code);
                let text = checked.text();
                let line = text.strip_prefix("FAIL  ").unwrap_or_else(|| panic!("{row}: {text}"));
                assert!(words.iter().all(|word| line.contains(word)), "{row}: {text}");
                assert_eq!(text.lines().count(), 1, "{row}: {text}");
            }
        }
        assert!(!ended.stderr.contains("PRIVATE"), "{ended}");
    };
    let rows = stream::iter(TABLE.lines().filter(|row| !row.is_empty()).map(check));
    rows.buffer_unordered(6).collect::<Vec<()>>().await;
    scene.end().await;
}
