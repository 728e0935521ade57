//! Tokens: issued, listed, revoked, and kept over restarts of the founder.
//!
//! Whoever issues or revokes a token is answered once that is decided, by all that keep the log;
//! where the founder keeps the list in a file, once that is done, too:
//!
//! ```text
//! tokens       line 1 "towpath tokens 2", then a line for each token:
//!              nonce (32 hexadecimal digits) secret (64) expiry (unix s) uses
//!              uses_max (`-`: any number) `good` or `revoked`
//! ```
//! The [keeper](crate::keeper) writes it anew for each change. It has the tokens' secrets, and is
//! its owner's alone.

use std::fmt::Write as _;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use rustix::fs::OFlags;
use towpath_io::{RealCrypto, interfaces};
use towpath_node::config::mark;
use towpath_node::invitations::Secret;
use towpath_node::{InviteError, Issued};

use super::core::Engine;
use crate::keeper::{Kept, Told};
use crate::private::{Dir, PrivateError};
use crate::protocol::{Reply, TokenInfo};
use crate::token::{ADDRS_MAX, HOSTS_MAX, Leader, TTL_COUNTED_MAX_S, TTL_MAX_S, Token, id_of};

/// Name of the file.
const NAME: &str = Kept::Tokens.name();
/// Its first line.
const HEAD: &str = "towpath tokens 2";
/// Most of it that is read.
const BYTES_MAX: u64 = 1 << 20;
/// Changes of tokens at once that wait to be decided or written down, with their answers.
const UNANSWERED_MAX: usize = 256;
const LEADER_ONLY: &str = "only the daemon that leads the virtual machine has tokens\n\
     hint: run `towpath token` on its machine; `towpath hosts` shows which that is";

/// The tokens that a daemon in `dir` has issued in earlier lives.
pub(crate) fn load(dir: &Path) -> Result<Vec<Issued>, PrivateError> {
    let file = match Dir::make(dir)?.file(NAME, OFlags::RDONLY) {
        Ok(file) => file,
        Err(PrivateError::System { why, .. }) if why.kind() == std::io::ErrorKind::NotFound => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let mut text = String::new();
    let failed = |why| PrivateError::System { what: "cannot read", path: dir.join(NAME), why };
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    let other = "it is no list of tokens: remove it, and issue new ones";
    parse(&text).ok_or_else(|| failed(std::io::Error::other(other)))
}

fn parse(text: &str) -> Option<Vec<Issued>> {
    let mut lines = text.lines();
    (lines.next()? == HEAD).then_some(())?;
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [nonce, secret, expiry, uses, max, state] = words[..] else { return None };
        let uses_max = if max == "-" { None } else { Some(max.parse().ok()?) };
        let revoked = match state {
            "good" => false,
            "revoked" => true,
            _ => return None,
        };
        let (nonce, secret) = (bytes(nonce)?, Secret(bytes(secret)?));
        let (expiry_unix_s, uses) = (expiry.parse().ok()?, uses.parse().ok()?);
        Some(Issued { nonce, secret, expiry_unix_s, uses_max, uses, revoked })
    };
    lines.map(line).collect()
}

/// Bytes that were written as two hexadecimal digits each.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.is_ascii() {
        return None;
    }
    for (i, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(bytes)
}

fn emit(issued: &[Issued]) -> String {
    let mut text = format!("{HEAD}\n");
    for Issued { nonce, secret, expiry_unix_s, uses_max, uses, revoked } in issued {
        for part in [&nonce[..], &secret.0] {
            for byte in part {
                let _ = write!(text, "{byte:02x}");
            }
            text.push(' ');
        }
        let max = uses_max.map_or_else(|| "-".into(), |max| max.to_string());
        let state = if *revoked { "revoked" } else { "good" };
        let _ = writeln!(text, "{expiry_unix_s} {uses} {max} {state}");
    }
    text
}

/// What an answer waits for.
enum Awaited {
    /// The log has to decide about the token of this nonce.
    Decision([u8; 16]),
    /// The list has to be written: whether that worked, once it is known.
    Written(Receiver<bool>),
}

/// An answer that waits.
pub(super) struct Unanswered {
    pub(super) client: u64,
    awaited: Awaited,
    /// What is said when all is done.
    yes: Reply,
    /// What is said where the list could not be written.
    no: Reply,
}

/// Why a token is not issued or revoked, and what to do.
fn refusal(why: InviteError) -> String {
    match why {
        InviteError::NotFounder => LEADER_ONLY.into(),
        InviteError::NothingDecided => why.to_string(),
        InviteError::TooMany => format!("{why}\nhint: `towpath token --revoke ID` ends one"),
        InviteError::Unknown => format!("{why} any more\nhint: `towpath token --list`"),
        InviteError::Undecided => {
            format!(
                "{why}\nhint: `towpath hosts` shows who leads, `towpath token --list` there what \
                 is good"
            )
        }
    }
}

/// With the addresses of this machine in the place of those that mean all of them.
fn real(addrs: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut real = Vec::new();
    for addr in addrs {
        if !addr.ip().is_unspecified() {
            real.push(addr);
            continue;
        }
        // A socket at every IPv6 address has the IPv4 ones, too.
        let same = |ip: &std::net::IpAddr| ip.is_ipv4() || addr.is_ipv6();
        let own = interfaces::addresses().unwrap_or_default().into_iter().filter(same);
        real.extend(own.map(|ip| SocketAddr::new(ip, addr.port())));
    }
    let mut seen = Vec::new();
    for addr in real {
        if !seen.contains(&addr) && seen.len() < ADDRS_MAX {
            seen.push(addr);
        }
    }
    seen
}

/// Where others are told that a socket at `addr` receives.
pub(crate) fn told(addr: SocketAddr) -> SocketAddr {
    real(vec![addr]).first().copied().unwrap_or(addr)
}

impl Engine {
    pub(super) fn invite(&mut self, client: u64, ttl_s: u64, uses: Option<u32>) {
        match self.invitation(ttl_s, uses) {
            Ok(token) => {
                let awaited = Awaited::Decision(token.invitation.nonce);
                let yes = Reply::Token(token.to_string());
                // What cannot be written is shown as trouble; the token is good here.
                self.unanswered.push(Unanswered { client, awaited, no: yes.clone(), yes });
            }
            Err(why) => self.reply(client, &Reply::Failed(why)),
        }
    }

    /// Why no more changes of tokens may wait, where so many do.
    fn crowded(&self) -> Option<String> {
        (self.unanswered.len() >= UNANSWERED_MAX)
            .then(|| format!("{UNANSWERED_MAX} changes of tokens wait, the limit: try again"))
    }

    fn invitation(&mut self, ttl_s: u64, uses: Option<u32>) -> Result<Token, String> {
        let max = if uses.is_some() { TTL_COUNTED_MAX_S } else { TTL_MAX_S };
        if !(1..=max).contains(&ttl_s) {
            return Err(format!(
                "a token for {ttl_s} s, limits 1 s and {max} s\n\
                 hint: with `--uses N` up to {TTL_COUNTED_MAX_S} s"
            ));
        }
        if uses == Some(0) {
            return Err("a token for no host: 1 at least".into());
        }
        if let Some(why) = self.crowded() {
            return Err(why);
        }
        let now = self.clock.now();
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&RealCrypto::generate_secret()[..16]);
        if let Some(vm_key) = self.node.vm_key() {
            mark(self.node.endpoint().crypto(), vm_key, &mut nonce);
        }
        let key = self.node.endpoint().public_key();
        let addrs = self.network.addrs().map(real).map_err(|e| format!("our own address: {e}"))?;
        if addrs.is_empty() {
            return Err("no interface of this machine has an address that others can use\n\
                        hint: `towpath up --listen ADDR:PORT`"
                .into());
        }
        let others = self.node.others_that_may_lead().into_iter().take(HOSTS_MAX - 1);
        let others = others.map(|(key, mut addrs)| {
            addrs.truncate(ADDRS_MAX);
            Leader { key, addrs }
        });
        let leaders = [Leader { key, addrs }].into_iter().chain(others).collect();
        let invitation = self.node.invite_for(now, ttl_s, nonce, uses).map_err(refusal)?;
        Ok(Token { invitation, leaders })
    }

    /// The log has decided about a token that was to be issued or revoked here.
    pub(super) fn token_decided(&mut self, nonce: [u8; 16], outcome: Result<(), InviteError>) {
        let is_it =
            |waiting: &Unanswered| matches!(waiting.awaited, Awaited::Decision(n) if n == nonce);
        let Some(at) = self.unanswered.iter().position(is_it) else { return };
        let Unanswered { client, yes, no, .. } = self.unanswered.remove(at);
        match outcome {
            Ok(()) => self.reply_once_kept(client, yes, no),
            Err(e) => self.reply(client, &Reply::Failed(refusal(e))),
        }
    }

    pub(super) fn tokens(&self) -> Reply {
        if !self.node.issues_tokens() {
            return Reply::Failed(LEADER_ONLY.into());
        }
        let info = |issued: Issued| TokenInfo {
            id: id_of(&issued.nonce),
            expiry_unix_s: issued.expiry_unix_s,
            uses: issued.uses,
            uses_max: issued.uses_max,
        };
        Reply::Tokens(self.node.invitations(self.clock.now()).into_iter().map(info).collect())
    }

    pub(super) fn revoke(&mut self, client: u64, id: &str) {
        if !self.node.issues_tokens() {
            return self.reply(client, &Reply::Failed(LEADER_ONLY.into()));
        }
        let all = self.node.invitations(self.clock.now());
        let mut named = all.iter().filter(|issued| id_of(&issued.nonce) == id);
        let (Some(issued), None) = (named.next(), named.next()) else {
            let why = format!("no token `{id}`\nhint: `towpath token --list`");
            return self.reply(client, &Reply::Failed(why));
        };
        if let Some(why) = self.crowded() {
            return self.reply(client, &Reply::Failed(why));
        }
        let awaited = Awaited::Decision(issued.nonce);
        let why = format!(
            "token `{id}` is revoked, but that could not be written down: if this daemon was \
             killed now, it would be good again\n\
             hint: make room on its disk; it goes on trying"
        );
        if !self.node.revoke(self.clock.now(), &issued.nonce) {
            return self.reply(client, &Reply::Failed(LEADER_ONLY.into()));
        }
        let (yes, no) = (Reply::Done, Reply::Failed(why));
        self.unanswered.push(Unanswered { client, awaited, yes, no });
    }

    /// Has the tokens written down if they have changed; what was issued or revoked here was
    /// [looked at](Self::token_decided) before.
    pub(super) fn keep_tokens(&mut self) {
        if !self.pending.rushed && self.node.invitations_changed() {
            self.hand_tokens_over(None);
        }
    }

    fn hand_tokens_over(&self, told: Option<Told>) {
        let issued = self.node.invitations_kept();
        if let Some(keeper) = &self.keeping.keeper {
            keeper.keep(Kept::Tokens, emit(&issued).into_bytes(), told);
        }
    }

    /// Has the tokens written down, and answers then; at once where this host does not keep them.
    fn reply_once_kept(&mut self, client: u64, yes: Reply, no: Reply) {
        if self.keeping.keeper.is_none() || !self.node.keeps_invitations() {
            return self.reply(client, &yes);
        }
        // Also where the list was handed over with this change already: that may be under way.
        self.node.invitations_changed();
        let (tell, kept) = channel();
        let waker = self.waker.clone();
        let told = move |is_kept| {
            // In vain only where the engine has ended.
            let _ = tell.send(is_kept);
            waker.wake();
        };
        self.hand_tokens_over(Some(Box::new(told)));
        let awaited = Awaited::Written(kept);
        self.unanswered.push(Unanswered { client, awaited, yes, no });
    }

    /// Answers those for whom the tokens have been written down by now.
    pub(super) fn answer_kept(&mut self) {
        for waiting in std::mem::take(&mut self.unanswered) {
            let written = match &waiting.awaited {
                Awaited::Decision(_) => Err(TryRecvError::Empty),
                Awaited::Written(written) => written.try_recv(),
            };
            match written {
                Ok(true) => self.reply(waiting.client, &waiting.yes),
                Err(TryRecvError::Empty) => self.unanswered.push(waiting),
                Ok(false) | Err(TryRecvError::Disconnected) => {
                    self.reply(waiting.client, &waiting.no);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_from_their_file() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(load(dir.path()).unwrap(), []);
        let issued = |n: u8, uses_max| Issued {
            nonce: [n; 16],
            secret: Secret([n ^ 0x55; 32]),
            expiry_unix_s: u64::from(n) << 40,
            uses_max,
            uses: n.into(),
            revoked: uses_max.is_some(),
        };
        let all = [issued(1, None), issued(0xfe, Some(7))];
        crate::keeper::replace(dir.path(), NAME, emit(&all).as_bytes()).unwrap();
        assert_eq!(load(dir.path()).unwrap(), all);
        for text in ["", "towpath tokens 1\n", "towpath tokens 2\nff 1 1 - good\n"] {
            std::fs::write(dir.path().join(NAME), text).unwrap();
            let said = load(dir.path()).unwrap_err().to_string();
            assert!(said.contains("it is no list of tokens"), "{said}");
        }
    }

    #[test]
    fn a_token_of_every_address_names_those_of_this_machine() {
        let addr = |text: &str| text.parse::<SocketAddr>().unwrap();
        let named = real(vec![addr("0.0.0.0:7077"), addr("192.0.2.1:9")]);
        assert!(named.len() >= 2 && named.len() <= ADDRS_MAX, "{named:?}");
        assert!(named.iter().all(|a| !a.ip().is_unspecified() && a.is_ipv4()), "{named:?}");
        assert!(named[..named.len() - 1].iter().all(|a| a.port() == 7077), "{named:?}");
        assert_eq!(real(vec![addr("127.0.0.1:5")]), [addr("127.0.0.1:5")]);
        assert!(!told(addr("[::]:7")).ip().is_unspecified());
    }
}
