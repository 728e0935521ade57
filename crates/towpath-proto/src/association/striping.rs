//! Which path the next packet of data goes by, of several.
//!
//! The stripe scheduler of the channel whose turn it is looks at all paths. Where it chooses one of
//! another link than the one that asks, that link is asked next, and this one gets no data now. A
//! path has room for what its congestion window and its pacer allow, and, beside others, for no
//! more under way than a quarter beyond what it holds by itself, which is its delivery rate times
//! its least round trip, and two datagrams at least: whatever is beyond that stands in a queue that
//! an urgent message, or the end of this one, would have to wait behind.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use towpath_wire::frame::{self, DATA_OVERHEAD};
use towpath_wire::{Instant, LinkId, PathId};

use super::channel::Channel;
use super::core::Association;
use super::flight::Item;
use super::path::Path;
use super::paths::PATHS_MAX;
use super::send::SendHalf;
use crate::machine::{Grant, GrantKind, PacketWriter};
use crate::stripe::{Next, PathView, StripeKind, StripeScheduler};

/// Bytes of what waits are counted up to here: beyond that it is much.
const BACKLOG_MAX: u64 = 1 << 20;
/// Copies that wait for their path at most; beyond it the oldest is dropped.
const COPIES_MAX: usize = 4096;

/// The schedulers in use, and what they left.
pub(super) struct Striping {
    /// Of each kind that a channel has had its turn with.
    list: Vec<(StripeKind, Box<dyn StripeScheduler>)>,
    /// That of the packet being written.
    present: StripeKind,
    seed: u64,
    /// The link that is to be asked next.
    turn: Option<LinkId>,
    /// Pieces that these paths are to carry, too.
    copies: VecDeque<(PathId, Item)>,
}

/// Where the next packet of data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picked {
    /// By this path, of the link that asks.
    Here(usize),
    /// Not by the link that asks: another one is to be asked, or waited for.
    Elsewhere,
    /// None has room.
    Nowhere,
}

impl Striping {
    pub(super) fn new(present: StripeKind, seed: u64) -> Self {
        let (list, copies) = (Vec::new(), VecDeque::new());
        Self { list, present, seed, turn: None, copies }
    }

    fn scheduler(&mut self, kind: StripeKind) -> &mut dyn StripeScheduler {
        let known = self.list.iter().position(|(k, _)| *k == kind);
        let at = known.unwrap_or_else(|| {
            self.list.push((kind, kind.build(self.seed)));
            self.list.len() - 1
        });
        &mut *self.list[at].1
    }

    /// A link is to be asked next.
    pub(super) const fn ask(&mut self, link: LinkId) {
        self.turn = Some(link);
    }

    /// Whether a path is to carry copies of what others carry.
    pub(super) fn owes_copies(&self, path: PathId) -> bool {
        self.copies.iter().any(|(id, _)| *id == path)
    }

    fn take_copy(&mut self, path: PathId) -> Option<Item> {
        let at = self.copies.iter().position(|(id, _)| *id == path)?;
        self.copies.remove(at).map(|(_, item)| item)
    }
}

impl Path {
    /// Bytes of data that it may be sent now, beside other paths.
    fn room_beside(&self, now: Instant) -> u64 {
        let left = self.most_beside().saturating_sub(self.in_flight());
        if left < self.datagram.into() { 0 } else { self.room(now).min(left) }
    }

    fn view(&self, now: Instant, asking: LinkId, (up, weight): (bool, u32)) -> PathView {
        PathView {
            id: self.id,
            room: self.room_beside(now),
            up,
            asks: self.link == asking,
            in_flight: self.in_flight(),
            rate: self.rate_hoped(),
            trip: self.rtt.min(),
            service: self.rtt.longest(),
            weight,
        }
    }
}

impl Association {
    /// The link that is to be asked next, where that is another one than the one that was.
    pub(crate) fn take_turn(&mut self) -> Option<LinkId> {
        self.striping.turn.take()
    }

    /// Bytes of data that a path may be sent now.
    pub(super) fn data_room(&self, now: Instant, path: &Path) -> u64 {
        // Also while one of several is all that is left: what it holds it will have to share again.
        if self.paths.len() > 1 { path.room_beside(now) } else { path.room(now) }
    }

    /// Where the next packet of data goes that a grant allows.
    pub(super) fn pick_path(&mut self, now: Instant, grant: Grant) -> Picked {
        if !grant.kind.has_data() || !self.channels.has_data(grant.kind.channel()) {
            return Picked::Nowhere;
        }
        // What is promised is promised on its link.
        let promised = grant.kind.channel().is_some();
        let carries = |p: &Path| p.standing.is_fit() && (promised || self.paths.carries(p));
        let own = |p: &Path| p.link == grant.link && carries(p);
        if !self.paths.are_several() || promised {
            let open = |p: &Path| own(p) && self.room(now, p, grant.kind) > 0;
            return self.paths.iter().position(open).map_or(Picked::Nowhere, Picked::Here);
        }
        let bytes = self.paths.first().datagram.into();
        let (kind, backlog) = self.channels.next_up(BACKLOG_MAX, self.config.paths.stripe);
        let (views, count) = self.views(now, grant.link, kind);
        let views = &views[..count];
        self.striping.present = kind;
        let next = Next { bytes, backlog: backlog.max(bytes) };
        let picked = self.striping.scheduler(kind).pick(&next, views);
        let Some(path) = picked.and_then(|n| self.paths.position(views[n].id)) else {
            let open = views.iter().any(PathView::is_open);
            return if open { Picked::Elsewhere } else { Picked::Nowhere };
        };
        if self.paths[path].link == grant.link {
            return Picked::Here(path);
        }
        self.striping.turn = Some(self.paths[path].link);
        Picked::Elsewhere
    }

    fn views(
        &self,
        now: Instant,
        asking: LinkId,
        kind: StripeKind,
    ) -> ([PathView; PATHS_MAX], usize) {
        let view = |p: &Path| p.view(now, asking, (self.paths.carries(p), kind.weight(p.link)));
        let mut views = [view(self.paths.first()); PATHS_MAX];
        let mut count = 0;
        for (slot, path) in views.iter_mut().zip(self.paths.iter()) {
            *slot = view(path);
            count += 1;
        }
        (views, count)
    }

    /// A packet with data went by a path: its scheduler counts it, and others carry copies where it
    /// says so.
    pub(super) fn data_went(&mut self, now: Instant, (path, bytes): (usize, u64), items: &[Item]) {
        if !self.paths.are_several() || !items.iter().any(|i| matches!(i, Item::Data { .. })) {
            return;
        }
        let (id, link) = (self.paths[path].id, self.paths[path].link);
        let (views, count) = self.views(now, link, self.striping.present);
        let scheduler = self.striping.scheduler(self.striping.present);
        scheduler.sent(&views[..count], id, bytes);
        if !scheduler.copies() {
            return;
        }
        for other in self.paths.carriers().filter(|p| p.id != id) {
            for item in items.iter().filter(|i| matches!(i, Item::Data { .. })) {
                if self.striping.copies.len() == COPIES_MAX {
                    self.striping.copies.pop_front();
                    self.stats.paths.copies_dropped += 1;
                }
                self.striping.copies.push_back((other.id, *item));
            }
            self.striping.turn = Some(other.link);
        }
    }

    /// A packet with parity went by a path: that takes its part of it, too.
    pub(super) fn parity_went(&mut self, now: Instant, path: usize, bytes: u64) {
        if self.paths.are_several() {
            let (id, link) = (self.paths[path].id, self.paths[path].link);
            let (views, count) = self.views(now, link, self.striping.present);
            self.striping.scheduler(self.striping.present).sent(&views[..count], id, bytes);
        }
    }

    /// Writes the copies that a path is to carry, as far as they fit.
    pub(super) fn write_copies(
        &mut self,
        path: usize,
        w: &mut PacketWriter<'_, '_>,
        items: &mut Vec<Item>,
    ) {
        if self.striping.copies.is_empty() {
            return;
        }
        let id = self.paths[path].id;
        while let Some(item) = self.striping.take_copy(id) {
            let Item::Data { channel, message, offset, len } = item else { continue };
            let copied = self.channels.with(channel, |c| {
                let open = if c.known { 0 } else { frame::open_len(&c.open) };
                if w.room() < DATA_OVERHEAD + open + usize::from(len) {
                    return false;
                }
                write_copy(c, (message, offset, len), w, items);
                true
            });
            if copied == Some(false) {
                self.striping.copies.push_front((id, item));
                return;
            }
        }
    }

    /// Nothing is copied to a path that carries no more.
    pub(super) fn drop_copies(&mut self, path: PathId) {
        self.striping.copies.retain(|(id, _)| *id != path);
    }

    /// Whether this grant may go on with data on a path, whose train has begun.
    pub(super) fn goes_on(&mut self, now: Instant, grant: Grant, path: usize) -> bool {
        if !self.paths.are_several() || !matches!(grant.kind, GrantKind::All) {
            return true;
        }
        !self.channels.has_data(None) || self.pick_path(now, grant) == Picked::Here(path)
    }
}

fn write_copy(
    c: &mut Channel,
    (message, offset, len): (u64, u32, u16),
    w: &mut PacketWriter<'_, '_>,
    items: &mut Vec<Item>,
) {
    let again = |s: &mut SendHalf| s.again(message, offset, len);
    let Some(piece) = c.send.as_mut().and_then(again) else { return };
    let id = c.open.channel;
    if !c.known && !items.contains(&Item::Open(id)) {
        super::build::write_open(c, w, items);
    }
    w.frame(DATA_OVERHEAD, |w| {
        frame::emit_data_header(w, id, message, piece.message_len, offset, piece.len);
    });
    w.body(piece.block, offset, piece.len.into());
    items.push(Item::Data { channel: id, message, offset, len: piece.len });
}
