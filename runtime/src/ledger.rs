//! The ledger: who holds how much of a device's memory. A claim is made before the memory is taken.

use crate::{Error, ErrorKind};
use alloc::{format, string::String, sync::Arc, vec::Vec};
use core::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The claims on one device's memory.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    limit: u64,
    used: u64,
    next: u64,
    claims: Vec<(u64, String, u64)>,
}

/// Memory that its holder may use until it drops this.
#[must_use = "a claim that is dropped is given back at once"]
pub struct Claim {
    ledger: Ledger,
    id: u64,
    bytes: u64,
}

impl Ledger {
    /// A ledger over this many bytes.
    pub fn new(limit: u64) -> Ledger {
        Ledger(Arc::new(Mutex::new(Book { limit, ..Book::default() })))
    }

    /// Claims bytes for `owner`.
    ///
    /// # Errors
    /// When the limit does not hold them; the message lists who holds what.
    pub fn claim(&self, owner: &str, bytes: u64) -> Result<Claim, Error> {
        let mut book = self.book();
        let left = book.limit.saturating_sub(book.used);
        if bytes > left {
            let holders: Vec<String> = book.claims.iter().map(|(_, who, held)| format!("{who} {held}")).collect();
            let holders = if holders.is_empty() { String::from("nobody") } else { holders.join(", ") };
            let owner = format!("{owner} (held by {holders})").into();
            return Err(Error::new(ErrorKind::Budget { owner, bytes, left }));
        }
        let id = book.next;
        book.next = book.next.wrapping_add(1);
        book.used = book.used.saturating_add(bytes);
        book.claims.push((id, String::from(owner), bytes));
        Ok(Claim { ledger: self.clone(), id, bytes })
    }

    /// Bytes claimed.
    pub fn used(&self) -> u64 {
        self.book().used
    }

    /// Changes the limit. Claims stay, even over it; new ones have to fit.
    pub fn set_limit(&self, limit: u64) {
        self.book().limit = limit;
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // The book is consistent at every point where a holder could panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// The bytes claimed.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claim({} bytes)", self.bytes)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut book = self.ledger.book();
        book.used = book.used.saturating_sub(self.bytes);
        book.claims.retain(|(id, _, _)| *id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row H3.
    #[test]
    fn the_second_of_two_that_do_not_fit_is_refused() {
        let ledger = Ledger::new(1000);
        let first = ledger.claim("first", 600).unwrap();
        let refused = ledger.claim("second", 500).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Budget { bytes: 500, left: 400, .. }));
        assert!(format!("{refused}").contains("first 600"));
        assert_eq!(ledger.used(), 600);
        ledger.set_limit(500);
        assert!(ledger.claim("third", 1).is_err());
        assert!(ledger.claim("nothing", 0).is_ok());
        drop(first);
        assert_eq!(ledger.used(), 0);
        assert_eq!(ledger.claim("third", 500).unwrap().bytes(), 500);
    }
}
