//! The exit codes and messages of `zklock`: a table of command lines, variables and files.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use futures_util::{StreamExt, stream};
use zookeeper_recipes::Curator;
use zookeeper_recipes::zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};
use zookeeper_recipes_dev::within;
use zookeeper_testkit::{Operation, random_path};

use crate::support::scene::Scene;

const SECRET: &str = "Q7dIgEsTq7";

/// Arguments | variables | exit code | words of the one line on stderr; after `>`, of stdout. Without words nothing is said. `~` is a
/// blank within an argument or a word, `{…}` a path or a file of the stage; `-NAME` unsets a variable. `touch ran` must never run.
const TABLE: &str = r#"
run {path} -c exit~0 | | 0 |
run {path} -c exit~75 | | 75 |
run {path} -c exit~255 | | 255 |
run {path} -c kill~-9~$$ | | 137 |
run {path} -c echo~$((6*7));exit~5 | | 5 | >42
run {path} -- no-such-command-anywhere | | 127 | no-such-command-anywhere
run {path} -- ./no-such-command | | 127 | ./no-such-command
run {path} -- {orphan} | | 127 | {orphan}:~its~interpreter~/no/such/interpreter~is~missing
run {path} -- {crlf} | | 127 | {crlf}:~its~interpreter~/bin/sh\r~is~missing CR~LF
run {path} -- {unloadable} | | 127 | {unloadable}:~the~file~is~there loader
run {path} -- {plain} | | 126 | {plain}
run {path} -- / | | 126 | /
run {path} -- {script} | | 0 | >it~ran
run {held} -n -- touch ran | | 75 | {held}~is~busy:~held~by~host-a:123,~queued
run {held} --nonblock -- touch ran | | 75 | {held}~is~busy held~by~host-a:123
run {held} -n --conflict-exit-code 200 -- touch ran | | 200 | {held}~is~busy
run {held} -n -E 0 -- touch ran | | 0 | {held}~is~busy
run {held} -w 3 -- touch ran | | 75 | {held}~is~busy~after~3s
run {held} --timeout 3s -E 3 -- touch ran | | 3 | {held}~is~busy~after~3s
run {held} -w 0 -- touch ran | | 75 | {held}~is~busy held~by~host-a:123
run {held} -n -q -- touch ran | ZKLOCK_SERVER={link} | 75 |
run {held} -w 3 --quiet -E 9 -- touch ran | | 9 |
run {path} --once k --read -- touch ran | | 64 | cannot~be~used~with
run {path} --once k --count 2 -- touch ran | | 64 | cannot~be~used~with
run {path} {path}/b --once k -- touch ran | | 64 | --once~takes~one~PATH
run {path} --once= -- touch ran | | 64 | key empty
run {path} --once k -n -E 9 -- touch ran | ZKLOCK_SERVER={nowhere} ZKLOCK_CONNECTION_TIMEOUT=1s | 69 | no~ZooKeeper
run {path} --acl anyone:cdrwa -- touch ran | | 64 | anyone:cdrwa: scheme:id:perms
run {path} --acl digest:bob:pw:cdrwa -- touch ran | ZKLOCK_AUTH=digest:bob:pw | 64 | write~digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa,~or~auth::cdrwa
run {path} -- touch ran | ZKLOCK_ACL=digest:bob:cdrwa | 64 | write~digest:USER:HASH:cdrwa
run {bobs} --acl digest:bob:ikIaKsbtGweaHnb/jKn7OHqbunM=:cdrwa -c exit~3 | ZKLOCK_AUTH=digest:bob:pw | 3 |
run {path} --acl auth::cdrwa -- touch ran | | 64 | acls no~credentials~were~sent~(--auth-file)
run {private} --acl auth::cdrwa -c exit~3 | ZKLOCK_AUTH=digest:ours:{secret} | 3 |
run {path} -- touch ran | ZKLOCK_AUTH=sasl:{secret} | 64 | sasl:user:password
check | | 0 | >{server}~granted~a~session~with~a~timeout~of~30s
check / | | 0 | >ok~~~~/~exists >created~and~deleted~under~/
check {path} | | 0 | >{path}~exists >created~and~deleted~under~{path}
check {path} --server {server},{nowhere} | | 69 | >FAIL >{nowhere}~cannot~be~connected~to >start~it >created~and~deleted
check --server {server}~{nowhere} | | 64 | connect~string separate~servers~by~commas
check --server zk://{server} | | 64 | "zk"~is~no~scheme~of~a~server:~write~HOST:PORT
check --server {server},a:99999 | | 64 | "99999"~is~no~port
check --server {silent} --connection-timeout 1s | | 69 | >FAIL >accepts~connections
check {readonly} | | 69 | >FAIL >create~a~znode~under~{readonly} >no~credentials~were~sent~(--auth-file)
check {barren}/lock | | 69 | >FAIL >choose~another~path
check {unlisted} | | 69 | >{unlisted}~exists >FAIL >list~{unlisted} >--auth-file
run {unlisted} -n -c exit~3 | | 69 | {unlisted}
check {fresh}-a/b --acl world:anyone:r | | 69 | >FAIL >create~{fresh}-a/b: >--auth-file
check {fresh}-b --acl world:anyone:cr --namespace {fresh} | | 69 | >FAIL >delete~a~znode~under~{fresh}-b:
check {fresh}-c/d --acl world:anyone:cdw | | 69 | >FAIL >list~{fresh}-c/d:
check --namespace {readonly}/n | | 69 | >FAIL >{server}:~cannot~create~{readonly}/n:
check {path}/new --server {server}{path}/chroot --namespace /n | | 0 | >{server}~granted >namespace~/n~exists >{path}/new~exists
check relative --namespace /n | | 64 | >FAIL >relative
check --namespace relative | | 64 | namespace relative
run {path} -n -E 9 -c exit~3 | | 3 |
run {path} -n -E 9 -- touch ran | ZKLOCK_SERVER={nowhere} ZKLOCK_CONNECTION_TIMEOUT=1s | 69 | no~ZooKeeper
run {mutex} --read -- touch ran | | 64 | {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~a~read~lock
run {mutex} --write -n -- touch ran | | 64 | {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~a~write~lock
run {mutex} --count 2 -w 10 -- touch ran | | 64 | {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~a~semaphore
elect {mutex} -- touch ran | | 64 | {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~an~election
elect {mutex} | | 64 | >follower {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~an~election
run {mutex} --count 2 -n -E 9 -q -- touch ran | | 64 | {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~a~semaphore
run {mutex} --slots 2 -n -- touch ran | | 64 | {mutex}~is~used~by~a~mutex~(host-a:123);~you~asked~for~a~semaphore
run {read} {path} -n -- touch ran | | 64 | {read}~is~used~by~a~read~lock~(host-a:123);~you~asked~for~a~mutex
run {write} -n -- touch ran | | 64 | {write}~is~used~by~a~write~lock~(host-a:123);~you~asked~for~a~mutex
run {leases} -n -- touch ran | | 64 | {leases}~is~used~by~a~semaphore~(host-a:123);~you~asked~for~a~mutex
run {latch} -n -- touch ran | | 64 | {latch}~is~used~by~an~election~(host-a:123);~you~asked~for~a~mutex
run {latch} --count 2 -- touch ran | | 64 | {latch}~is~used~by~an~election~(host-a:123);~you~asked~for~a~semaphore
run {private} -- touch ran | | 69 | {private} no~credentials~were~sent~(--auth-file)
ls {private} | | 69 | {private} no~credentials~were~sent~(--auth-file)
run {readonly} -- touch ran | | 69 | no~permission~to~create~{readonly}~or~a~node~under~it
run {barren}/lock -- touch ran | | 64 | {barren}/lock
run {path} --server {nowhere} --connection-timeout 1s -- touch ran | | 69 | no~ZooKeeper~within~1s refused
run {path} --server xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.invalid --connection-timeout 1s -- touch ran | | 69 | not~known~by~that~name
run {path} --server {silent} --connection-timeout 1s -- touch ran | | 69 | accepts~connections
run {path} -w 2 -- touch ran | ZKLOCK_SERVER={nowhere} ZKLOCK_CONNECTION_TIMEOUT=1h | 69 | no~ZooKeeper~within~2s:~ refused
run {path} -w 3 -- touch ran | ZKLOCK_SERVER={nowhere} ZKLOCK_CONNECTION_TIMEOUT=1s | 69 | no~ZooKeeper~within~3s
run {path} -n -w 3 -- touch ran | ZKLOCK_SERVER={nowhere} ZKLOCK_CONNECTION_TIMEOUT=1s | 69 | no~ZooKeeper~within~3s
run {path} -w 1h -- touch ran | ZKLOCK_AUTH=nosuchscheme:secret | 69 | authentication~with nosuchscheme~credentials~were~sent~(--auth-file)
run {path} -n -w 1h -- touch ran | ZKLOCK_AUTH=nosuchscheme:secret | 69 | authentication~with nosuchscheme~credentials~were~sent
run {path} --once k -w 1h -- touch ran | ZKLOCK_AUTH=nosuchscheme:secret | 69 | authentication~with nosuchscheme~credentials~were~sent
elect {latch} --kill-after 4s -- touch ran | ZKLOCK_SESSION_TIMEOUT=10s | 64 | --kill-after 10s
run {path} -w 2 -- touch ran | ZKLOCK_SERVER={silent} ZKLOCK_CONNECTION_TIMEOUT=1h | 69 | no~ZooKeeper~within~2s:~ accepts~connections
break {path} --yes --server {nowhere} --connection-timeout 1s | | 69 | no~ZooKeeper
run {path} --server localhost:1 --connection-timeout 1s -- touch ran | RUST_MIN_STACK=281474976710656 | 70 | thread
run {path} -w soon -- touch ran | | 64 | soon
run {path} -w 1e19 -- touch ran | | 64 | 1e19 at~most~365~days
run {held} -n -w 1h -- touch ran | | 75 | {held}~is~busy:~held~by
run {path} -E 256 -- touch ran | | 64 | 256
run {path} --read --write -- touch ran | | 64 | cannot~be~used~with
run {path} --read --count 2 -- touch ran | | 64 | cannot~be~used~with
run {path} --count 0 -- touch ran | | 64 | --count
run {path} --slots 0 -- touch ran | | 64 | --slots
run {path} --slots 65537 -- touch ran | | 64 | --slots
run {path} --slots 2 --count 2 -- touch ran | | 64 | cannot~be~used~with
run {path} --slot-file slot -- touch ran | | 64 | --slots
run {path} {path}/b --slots 2 -- touch ran | | 64 | --slots~takes~one~PATH
run {path} --on-lost cry -- touch ran | | 64 | cry
run {path} --on-revoke cry -- touch ran | | 64 | cry
run {path} --kill-after 4s -- touch ran | ZKLOCK_SESSION_TIMEOUT=10s | 64 | --kill-after 10s
run {path} --session-timeout 0 -- touch ran | | 64 | from~100~ms~to~24~h
run {path} --connection-timeout 25h -- touch ran | | 64 | from~100~ms~to~24~h
run {path} -- touch ran | ZKLOCK_SESSION_TIMEOUT=soon | 64 | 'soon'~for~ZKLOCK_SESSION_TIMEOUT:
run {path} --session-timeout later -- touch ran | ZKLOCK_SESSION_TIMEOUT=10s | 64 | 'later'~for~'--session-timeout
run {path} -- touch ran | ZKLOCK_SERVER= | 64 | ZKLOCK_SERVER~is~empty
run {path} -- touch ran | ZKLOCK_SESSION_TIMEOUT= | 64 | ZKLOCK_SESSION_TIMEOUT~is~empty
run {path} -- touch ran | ZKLOCK_AUTH= | 64 | ZKLOCK_AUTH~is~empty
run {path} --id= -- touch ran | | 64 | a~value~is~required~for~'--id
run {path} --acl= -- touch ran | | 64 | a~value~is~required~for~'--acl
run {path} --namespace relative -- touch ran | | 64 | namespace relative
run {path} --server= -- touch ran | | 64 | a~value~is~required~for~'--server
run {path} --config not-there.toml -- touch ran | | 64 | config:~cannot~read~not-there.toml
run {path} --auth-file not-there -- touch ran | | 64 | auth-file:~cannot~read~not-there
run {path} --tls-ca not-there -- touch ran | | 64 | not-there
run {path} --nonsense -- touch ran | | 64 | --nonsense
nonsense | | 64 | nonsense
run | | 64 | PATH
run {path} | | 64 | no~command
run {path} rsync -a src dst | | 64 | '-a' write~--~before~the~command
run {path} rsync -- -a src dst | | 64 | rsync~is~no~path~of~a~lock:~write~--~before~the~command
run {path} rsync src dst | | 64 | rsync write~--~before~the~command
run {path} rsync -n -w 5 src | | 64 | write~--~before~the~command
run {path} {path}/b --quite -- touch ran | | 64 | '--quite' '--quiet'
elect {path} ./mailer | | 64 | './mailer' write~--~before~the~command
elect {path} ./mailer --foo | | 64 | './mailer' write~--~before~the~command
run -- touch ran | | 64 | PATH
run {path} -c true -- true | | 64 | cannot~be~used~with
run relative -- touch ran | | 64 | "relative"
run /a//b -- touch ran | | 64 | "/a//b"
run {path}/ -c echo~$ZK_LOCK_PATH | | 0 | >{path}
run {path}/a/ {path}/b// -c exit~3 | | 64 | -c~takes~one~PATH
run {path}/a/ {path}/b// -- sh -c exit~3 | | 3 |
run {held}/ -n -- touch ran | | 75 | {held}~is~busy
run {path}/ --once k -c exit~3 | | 3 |
elect {path}/ -- sh -c exit~3 | | 3 |
check {path}/ | | 0 | >created~and~deleted~under~{path}
run {path} {path} -- touch ran | | 64 | {path}
elect {path} -- sh -c echo~$ZK_LOCK_PATH;exit~3 | | 3 | >{path}
ls {path} | | 0 | nothing~is~at~{path}:~the~path~does~not~exist
ls {path} --json | | 0 | nothing~is~at~{path} >[]
ls {path} --recursive | | 0 | nobody~holds~or~waits {path}:~the~path~does~not~exist
ls {readonly} --recursive | | 0 | nobody~holds~or~waits
ls {held}// | | 0 | >host-a:123
ls / | | 0 | /~is~a~folder zklock~ls~-r~/~lists
break {path} --yes | | 0 | nothing~is~at~{path}:~the~path~does~not~exist
revoke {path} | | 0 | nothing~is~at~{path}:~the~path~does~not~exist
break {parent}/ --yes | | 0 | {parent}~is~a~folder zklock~ls~-r~{parent}~lists
revoke {parent} | | 0 | {parent}~is~a~folder zklock~ls~-r~{parent}~lists
elect relative | | 64 | "relative"
ls a~~b | | 64 | "a~~b"
revoke {path} --node _c_none | | 64 | --node~_c_none:~no~name~of~a~contender's~node
break {path} --all --node x | | 64 | cannot~be~used~with
completions tcsh | | 64 | tcsh
man --dir {script} | | 64 | --dir:~cannot~use~{script}
run {path} --log-format= -- touch ran | | 64 | --log-format
run {path} --log-format yaml -- touch ran | | 64 | yaml --log-format
run {path} -- touch ran | ZKLOCK_LOG_FORMAT=yaml | 64 | yaml
run {path} -- touch ran | ZKLOCK_VERBOSE=maybe | 64 | maybe
run {path} -c exit~3 | ZKLOCK_VERBOSE=no ZKLOCK_LOG_FORMAT=text | 3 |
run {path} -c exit~3 | RUST_LOG= | 3 |
run {path} -c exit~3 | RUST_LOG=[x | 3 | RUST_LOG=[x~is~not~used
run {path} --metrics-file= -- touch ran | | 64 | --metrics-file
run {path} --metrics-file / -- touch ran | | 64 | --metrics-file:~cannot~use~/: regular
run {path} --metrics-file /dev/null -- touch ran | | 64 | /dev/null regular
run {path} --metrics-file .. -- touch ran | | 64 | --metrics-file regular
run {path} --metrics-file /no/such/folder/x.prom -- touch ran | | 64 | /no/such/folder/x.prom
run {path} --metrics-file {script} -- touch ran | | 64 | {script} name~another~one
run {path} --metrics-file /proc/x.prom -- touch ran | | 64 | /proc/x.prom
elect {path} --metrics-file /dev/null -- touch ran | | 64 | /dev/null regular
ls {path} --expect many | | 64 | many
ls {path} --expect 0 | | 64 | --expect
ls {path} --expect 2 --watch | | 64 | cannot~be~used~with
run {path} /bin/sh -c touch~ran | ZKLOCK_NAMESPACE={path} | 64 | /bin/sh ~--~
run /bin/sh -c touch~ran | ZKLOCK_NAMESPACE={path} | 64 | /bin/sh ~--~
run {path} /usr/bin/env -- touch ran | ZKLOCK_NAMESPACE={path} | 64 | /usr/bin/env ~--~
run {path} {path}/b /bin/sh -- touch ran | ZKLOCK_NAMESPACE={path} | 64 | /bin/sh ~--~
run {path} /no/such/program -c touch~ran | ZKLOCK_NAMESPACE={path} | 64 | -c ~--~
run {path} {path}/b --shell touch~ran | ZKLOCK_NAMESPACE={path} | 64 | -c ~--~
run /bin/sh -- sh -c exit~3 | ZKLOCK_NAMESPACE={path} | 3 |
run /bin/sh /etc/passwd /usr/bin -- sh -c exit~3 | ZKLOCK_NAMESPACE={path} | 3 |
run /usr/bin -c exit~3 | ZKLOCK_NAMESPACE={path} | 3 |
run {path}/deep/er/a~~b -c "$ZKLOCK"~run~"$ZK_LOCK_PATH"~-n~--~true | | 75 | {path}/deep/er/a~~b~is~busy
run {path} -c {look} --id flag --config {named} | ZKLOCK_ID=variable | 0 | >flag
run {path} -c {look} --config {named} | ZKLOCK_ID=variable | 0 | >variable
run {path} -c {look} | ZKLOCK_CONFIG={named} | 0 | >named
run {path} -c {look} | XDG_CONFIG_HOME={own} | 0 | >own
run {path} -c {look} | XDG_CONFIG_HOME= | 0 | >home
--config {all} run /lock -c echo~$ZK_LOCK_NODE | -ZKLOCK_SERVER -ZKLOCK_SESSION_TIMEOUT | 0 | >/lock/_c_
run /lock -c {look} | -ZKLOCK_SERVER -ZKLOCK_SESSION_TIMEOUT ZKLOCK_CONFIG={all} | 0 | >file
run /lock -c echo~$ZK_LOCK_PATH | ZKLOCK_SERVER={server}{path} | 0 | >/lock
run {path} --config {wrong} -- touch ran | | 64 | {wrong}:2:~unknown~key server
run {private} -c exit~3 | ZKLOCK_AUTH=digest:ours:{secret} | 3 |
run {private} -c exit~3 | ZKLOCK_AUTH_FILE={auth} | 3 |
run {private} -c exit~3 --auth-file {auth} | | 3 |
run {private} -- touch ran | ZKLOCK_AUTH=digest:ours:other | 69 | {private} digest~credentials~were~sent~(--auth-file)
check {private} | ZKLOCK_AUTH=digest:ours:other | 69 | >FAIL >digest~credentials~were~sent~(--auth-file)
"#;

/// A program, with the name of a loader that is nowhere.
fn without_loader() -> Vec<u8> {
    let mut program = fs::read("/bin/true").unwrap();
    let loader = program.windows(4).position(|bytes| bytes == b"/lib").unwrap();
    program[loader..loader + 4].copy_from_slice(b"/xyz");
    program
}

/// What the rows name, beside what is held there and by whom.
async fn stage(scene: &Scene) -> Vec<(&'static str, String)> {
    let file = |name: &str, text: &[u8]| scene.file(name, text).display().to_string();
    let shown = |name: &str| scene.folder.join(name).display().to_string();
    for folder in ["own", "home/.config"] {
        fs::create_dir_all(scene.folder.join(folder)).unwrap();
    }
    file("own/zklock.toml", b"id = \"own\"\n");
    file("home/.config/zklock.toml", b"id = \"home\"\n");
    let credentials = format!("# a comment\n\ndigest:ours:{SECRET}\n");
    let auth = file("auth", credentials.as_bytes());
    let (server, path) = (scene.server.connect_string(), &scene.path);
    let all = format!(
        "server = \"{server}\"\nnamespace = \"{path}\"\nsession-timeout = \"7s\"\nconnection-timeout = 5\n\
         id = \"file\"\nauth-file = \"auth\"\n"
    );
    let files = [
        ("orphan", "#!/no/such/interpreter -x\n"),
        ("crlf", "#!/bin/sh\r\necho it ran\r\n"),
        ("plain", ""),
        ("script", "echo it ran"),
    ];
    let [orphan, crlf, plain, script] = files.map(|(name, text)| file(name, text.as_bytes()));
    let unloadable = file("unloadable", &without_loader());
    for program in [&orphan, &crlf, &script, &unloadable] {
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let names = ["private", "bobs", "readonly", "unlisted", "barren", "fresh"];
    let [private, bobs, readonly, unlisted, barren, fresh] = names.map(random_path);
    let writers =
        [Acl::new(Permission::CREATE | Permission::DELETE | Permission::WRITE, AuthId::anyone())];
    for (path, acls) in [(&readonly, Acls::anyone_read()), (&unlisted, Acls::new(&writers))] {
        let options = CreateMode::Persistent.with_acls(acls);
        scene.admin.create(path, b"", &options).await.unwrap();
    }
    scene.create(&barren, CreateMode::Ephemeral).await;
    let look = r#""$ZKLOCK" --id looks ls "$ZK_LOCK_PATH""#.to_owned();
    vec![
        ("held", format!("{path}/held")),
        ("parent", path.clone()),
        // For those who are of another recipe: their nodes would be in the way of the others.
        ("mutex", format!("{path}/mutex")),
        ("read", format!("{path}/read")),
        ("write", format!("{path}/write")),
        ("leases", format!("{path}/leases")),
        ("latch", format!("{path}/latch")),
        ("server", server.to_owned()),
        ("nowhere", "127.0.0.1:1".to_owned()),
        ("named", file("named.toml", b"id = \"named\"\n")),
        ("all", file("all.toml", all.as_bytes())),
        ("wrong", file("wrong.toml", b"id = \"a\"\nservers = \"a\"\n")),
        ("own", shown("own")),
        ("secret", SECRET.to_owned()),
        ("look", look),
        ("auth", auth),
        ("orphan", orphan),
        ("crlf", crlf),
        ("unloadable", unloadable),
        ("plain", plain),
        ("script", script),
        ("private", private),
        ("bobs", bobs),
        ("readonly", readonly),
        ("unlisted", unlisted),
        ("fresh", fresh),
        ("barren", barren),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_ends_with_its_code_and_its_words() {
    let scene = Scene::new().await;
    let mut names = stage(&scene).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    names.push(("silent", listener.local_addr().unwrap().to_string()));
    let link = scene.link().await;
    names.push(("link", link.connect_string().to_owned()));
    let of = |name: &str| names.iter().find(|(other, _)| *other == name).unwrap().1.as_str();
    // Somebody else's, and only theirs.
    let credentials = format!("ours:{SECRET}");
    let owner = Curator::builder().auth("digest", credentials.as_bytes()).acls(Acls::creator_all());
    let owner = scene.connect(owner).await;
    let mutex = owner.mutex(of("private")).unwrap();
    within("the lock", mutex.acquire()).await.unwrap().release().await.unwrap();
    let holder = scene.connect(scene.builder().identity("host-a:123")).await;
    let mutex = holder.mutex(of("held")).unwrap();
    let guard = within("the lock", mutex.acquire()).await.unwrap();
    // Another lock below that one, with the name of a semaphore's folder.
    let mutex = holder.mutex(format!("{}/locks", of("held"))).unwrap();
    let below = within("the lock", mutex.acquire()).await.unwrap();
    let mutex = holder.mutex(of("mutex")).unwrap();
    let other = within("the lock", mutex.acquire()).await.unwrap();
    let read = holder.read_write_lock(of("read")).unwrap().read_half();
    let read = within("the lock", read.acquire()).await.unwrap();
    let write = holder.read_write_lock(of("write")).unwrap().write_half();
    let write = within("the lock", write.acquire()).await.unwrap();
    let semaphore = holder.semaphore(of("leases"), 2).unwrap();
    let lease = within("the lease", semaphore.acquire()).await.unwrap();
    let latch = holder.leader_latch(of("latch")).unwrap();
    within("it leads", latch.leadership()).await.unwrap();
    let filled = |text: &str| {
        let text = text.replace('~', " ");
        names.iter().fold(text, |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    };
    let check = async |(number, row): (usize, &str)| {
        // A path of its own: many hold theirs at once.
        let filled =
            |text: &str| filled(text).replace("{path}", &format!("{}/{number}", scene.path));
        let columns: Vec<&str> = row.split('|').map(str::trim).collect();
        let [arguments, variables, code, words] = columns[..] else { panic!("{row}") };
        let mut tool = scene.zklock(arguments.split(' ').map(filled));
        for variable in variables.split_whitespace() {
            if let Some(unset) = variable.strip_prefix('-') {
                tool.command().env_remove(unset);
                continue;
            }
            let (name, value) = variable.split_once('=').unwrap();
            tool = tool.env(name, filled(value));
        }
        let ended = tool.ended().await;
        let code = code.parse().unwrap();
        let (out, err): (Vec<_>, Vec<_>) =
            words.split_whitespace().map(filled).partition(|word| word.starts_with('>'));
        println!("{row}: {ended}");
        match err.iter().map(String::as_str).collect::<Vec<_>>() {
            err if err.is_empty() => ended.quietly(code),
            err => drop(ended.one_line(code, &err).to_owned()),
        }
        let text = ended.text();
        assert_eq!(out.is_empty(), text.is_empty(), "{row}: {ended}");
        assert!(out.iter().all(|word| text.contains(&word[1..])), "{row}: {ended}");
    };
    let rows = stream::iter(TABLE.lines().filter(|row| !row.is_empty()).enumerate().map(check));
    rows.buffer_unordered(8).collect::<Vec<()>>().await;
    assert!(!scene.folder.join("ran").exists());
    assert_eq!(link.requests(Operation::GetData), 0, "a quiet run does not look for the holder");
    // What a refused check created is deleted.
    for path in ["", "-a", "-b", "-c"].map(|end| format!("{}{end}", of("fresh"))) {
        assert!(scene.stat(&path).await.is_none(), "{path}");
    }
    below.release().await.unwrap();
    guard.release().await.unwrap();
    other.release().await.unwrap();
    read.release().await.unwrap();
    write.release().await.unwrap();
    lease.release().await.unwrap();
    latch.close().await.unwrap();
    scene.end().await;
}
