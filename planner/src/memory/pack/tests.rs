//! Tests of the packer, on small random problems against exhaustive search.

use super::{Item, Packing, pack, pack_within};

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn meet(a: &Item, b: &Item) -> bool {
    a.size > 0 && b.size > 0 && a.start < b.end && b.start < a.end
}

#[track_caller]
fn check(items: &[Item], p: &Packing) {
    for (i, a) in items.iter().enumerate() {
        assert_eq!(p.offsets[i] % a.align, 0);
        assert!(p.offsets[i] + a.size <= p.height);
        assert!(a.fixed.is_none_or(|f| f == p.offsets[i]));
        for (j, b) in items.iter().enumerate().skip(i + 1) {
            let apart = p.offsets[i] + a.size <= p.offsets[j] || p.offsets[j] + b.size <= p.offsets[i];
            assert!(apart || !meet(a, b), "items {i} and {j} overlap");
        }
    }
    assert!(p.bound <= p.height);
}

/// The lowest height, by trying every order with every item as low as it goes.
fn lowest(items: &[Item], placed: &mut Vec<(usize, u64)>, height: u64, best: &mut u64) {
    if height >= *best {
        return;
    }
    if placed.len() == items.len() {
        *best = height;
        return;
    }
    for i in 0..items.len() {
        if placed.iter().any(|(j, _)| *j == i) {
            continue;
        }
        // Any resting place: the ground, or on top of a placed one.
        let mut places: Vec<u64> = vec![0];
        places.extend(placed.iter().map(|(j, o)| (o + items[*j].size).next_multiple_of(items[i].align)));
        places.sort_unstable();
        let free = |o: u64| {
            placed
                .iter()
                .all(|(j, p)| !meet(&items[i], &items[*j]) || o + items[i].size <= *p || p + items[*j].size <= o)
        };
        if let Some(o) = places.into_iter().find(|o| free(*o)) {
            placed.push((i, o));
            lowest(items, placed, height.max(o + items[i].size), best);
            placed.pop();
        }
    }
}

fn random(rng: &mut Rng, n: u64) -> Vec<Item> {
    (0..n)
        .map(|_| {
            let start = rng.below(8);
            Item {
                size: rng.below(9),
                align: [1, 1, 2, 4][rng.below(4) as usize],
                start,
                end: start + 1 + rng.below(5),
                fixed: None,
            }
        })
        .collect()
}

#[test]
fn small_problems_are_solved_exactly() {
    let mut rng = Rng(1);
    for case in 0..400 {
        let n = 1 + rng.below(7);
        let items = random(&mut rng, n);
        let p = pack(&items, 20_000);
        check(&items, &p);
        let mut best = u64::MAX;
        lowest(&items, &mut Vec::new(), 0, &mut best);
        assert!(p.height >= best, "case {case}");
        if p.optimal {
            assert_eq!(p.height, best, "case {case}: {items:?}");
        }
        let q = pack_within(&items, best, 20_000);
        assert_eq!(q.height, best, "case {case}: {items:?}");
    }
}

#[test]
fn larger_problems_are_sound_and_never_above_greedy() {
    let mut rng = Rng(2);
    for _ in 0..60 {
        let items = random(&mut rng, 40);
        let (greedy, searched) = (pack(&items, 0), pack(&items, 5_000));
        check(&items, &greedy);
        check(&items, &searched);
        assert!(searched.height <= greedy.height);
        assert_eq!(searched, pack(&items, 5_000));
    }
}

#[test]
fn pinned_items_stay() {
    let item = |size, start, end, fixed| Item { size, align: 1, start, end, fixed };
    let items = [item(4, 0, 4, Some(4)), item(4, 1, 3, None), item(2, 0, 9, None), item(1, 5, 9, Some(0))];
    let p = pack(&items, 1000);
    check(&items, &p);
    assert_eq!(p.offsets[0], 4);
}
