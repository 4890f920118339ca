//! The pages of a sweep: which is wanted, and what each brings. How the list gets on is told in `paging`.

use super::Sweep;
use super::paging::{Position, Turn, Unreadable};
use crate::plan::{Failure, Page, PageRequest};

/// The most objects that wait for another attempt; past it no page is listed until some are settled.
const POSTPONED_MAX: usize = 1000;

impl Sweep {
    /// The token of the page that is to be listed next: `Some(None)` is the first page, `None` that none is wanted now.
    #[must_use]
    pub fn wanted_page(&self) -> Option<Option<&str>> {
        match self.paging.position() {
            Position::Next(token)
                if self.postponed.len() < POSTPONED_MAX
                    && (self.pending.is_empty() || self.seeks_witness()) =>
            {
                Some(token.as_deref())
            }
            Position::Next(_) | Position::End => None,
        }
    }

    /// The page that is wanted, or what else has to be asked to get to it.
    pub fn request(&mut self, limit_max: u32) -> PageRequest {
        self.paging.request(limit_max)
    }

    /// Whether the latest request was for a page, rather than for what stands in the way of one.
    #[must_use]
    pub fn is_on_course(&self) -> bool {
        self.paging.is_on_course()
    }

    /// Takes in the page that was asked for. Objects that are as their visit left them need nothing.
    ///
    /// Returns what the target is to be left alone for, if it is.
    pub fn list(&mut self, page: Page) -> Option<Failure> {
        if self.is_on_course() {
            let behind = self.paging.behind();
            self.refuse_unread(&behind);
            self.save_checkpoint();
        }
        let turn = self.paging.listed(page);
        self.turn(turn)
    }

    /// Takes in that the token has expired: the list goes on with `token`, or from the first page. Returns as [`Self::list`].
    pub fn list_expired(&mut self, token: Option<String>) -> Option<Failure> {
        let turn = self.paging.expired(token);
        if *self.paging.position() == Position::Next(None) {
            self.list_again();
        }
        self.turn(turn)
    }

    /// Takes in that the server could not answer with a page. Returns as [`Self::list`].
    pub fn list_failed(&mut self, failure: Failure) -> Option<Failure> {
        let resource = self.target.resource();
        let turn = self.paging.failed(failure, &resource.group, &resource.resource);
        self.turn(turn)
    }

    fn turn(&mut self, turn: Turn) -> Option<Failure> {
        match turn {
            Turn::Page(page) => self.take_in(page),
            Turn::AskOn => {}
            Turn::Hold(failure) => return Some(failure),
            Turn::Unreadable(objects) => self.refuse_unread(&objects),
        }
        None
    }

    fn refuse_unread(&mut self, objects: &[Unreadable]) {
        for unreadable in objects {
            self.refusals.add(&unreadable.object(), &unreadable.failure, 1);
            self.tally.unreadable(self.is_confirm());
        }
    }

    fn take_in(&mut self, page: Page) {
        let Page { objects, continue_token: _, remaining } = page;
        self.tally.listed(objects.len() as u64, remaining, self.is_confirm());
        let seen_before = self.pending.len();
        for object in objects {
            if self.memory.knows(&object) {
                self.witness.get_or_insert(object);
            } else if !self.postponed.iter().any(|p| p.is_of(&object)) {
                self.pending.push_back(object);
            }
        }
        // Where a witness is sought, it is sought among the new ones.
        self.pending.rotate_left(seen_before);
        self.has_new = self.pending.len() > seen_before;
    }
}
