//! The member of a type at an offset.
//!
//! What for: [`Model::member_at`]. What not: the origin of the offset.
//!
//! Rules; without each of them an answer could be wrong:
//! * All bytes of the access lie in one member. Otherwise the answer is the members that it covers exactly, with all
//!   their names, or the structure's part without a name.
//! * An address may have a part that is a multiple of `step`. In an array the size of the elements divides the step,
//!   and the constant part leads into the first element: `b[i-1]` must not become the variable before `b`. In a
//!   structure only one array may fit, for the same reason.
//! * One access covers several numbers only with a vector register's width; narrower ones are mostly casts.
//!
//! Assumptions: none about the types; recursion ends by the depth limit.

use std::rc::Rc;

use super::model::{Kind, Member, Model, Type};
use super::units::DieRef;

/// Deepest nesting of structures and arrays.
const DEPTH_LIMIT: usize = 24;
/// Most members examined for one answer: unions in unions could otherwise take exponential time.
const EFFORT: u32 = 1 << 14;
/// Most names that are joined.
const NAMES_LIMIT: usize = 4;
/// Bytes of the narrowest vector register.
const VECTOR_BYTES: u64 = 16;

/// The place of an access in a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    /// Bytes from the type's start, without the unknown part.
    pub(super) offset: i64,
    /// The unknown part is a multiple of this; 0 for none.
    pub(super) step: u64,
    /// Bytes touched.
    pub(super) bytes: u64,
}

/// A member of a type, or all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Leaf {
    /// Empty for the whole, or a part with no name.
    pub(super) path: String,
    /// From the start of the type.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// The type of the one number or pointer that is touched.
    pub(super) scalar: Option<DieRef>,
    /// All of a pointer is touched: what it points to.
    pub(super) target: Option<DieRef>,
}

/// The answer for an access.
#[derive(Clone, Debug)]
pub(super) struct MemberMatch {
    /// Behind arrays: the element.
    pub(super) outer: Rc<Type>,
    pub(super) leaf: Leaf,
    /// A reader has no name for it: the descriptor of an array.
    pub(super) hidden: bool,
}

impl Model<'_> {
    /// What is at `span` of the type at `die`. `many`: the type may be an element of an array, as behind a pointer.
    pub(super) fn member_at(&self, die: DieRef, span: Span, many: bool) -> Option<MemberMatch> {
        self.effort.set(EFFORT);
        self.outermost(die, span, many, DEPTH_LIMIT)
    }

    fn outermost(&self, die: DieRef, span: Span, many: bool, depth: usize) -> Option<MemberMatch> {
        let depth = depth.checked_sub(1)?;
        let outer = self.get(die)?;
        if let Kind::Array(element) = outer.kind {
            let size = self.get(element)?.bytes;
            let within = usable_in_array(span, size, outer.bytes, many)?;
            return self.outermost(element, within, true, depth);
        }
        let hidden = matches!(outer.kind, Kind::Descriptor(_));
        let size = outer.bytes.cast_signed();
        // A structure that ends with an array without a length cannot be an element of an array.
        let open =
            matches!(&outer.kind, Kind::Record { members, .. } if self.open_end(members).is_some());
        let whole_steps = many && !open && span.step > 0 && span.step.is_multiple_of(outer.bytes);
        let span = match &outer.kind {
            Kind::Record { .. } if whole_steps => {
                Span { offset: span.offset.rem_euclid(size), step: 0, ..span }
            }
            Kind::Scalar | Kind::Pointer(_) if many && (span.step == 0 || whole_steps) => {
                element_span(span, outer.bytes)?
            }
            _ => span,
        };
        let leaf = self.within(&outer, span, depth)?;
        Some(MemberMatch { outer, leaf, hidden })
    }

    fn within(&self, of: &Rc<Type>, span: Span, depth: usize) -> Option<Leaf> {
        let depth = depth.checked_sub(1)?;
        match &of.kind {
            // As a variant that holds nothing.
            Kind::Record { members, .. } if members.is_empty() => None,
            Kind::Record { members, union } => {
                let open = self.open_end(members);
                let from = u64::try_from(span.offset).ok()?;
                let inside = from.checked_add(span.bytes)? <= of.bytes;
                (inside || open.is_some_and(|start| start <= from)).then_some(())?;
                self.inside(of, members, *union, span, depth)
            }
            Kind::Array(element) => self.indexed(of, *element, span, depth),
            Kind::Scalar | Kind::Pointer(_) | Kind::Descriptor(_) => self.scalar(of, span),
        }
    }

    /// Where an array without a length at the end of a structure begins (C's flexible array member).
    fn open_end(&self, members: &[Member]) -> Option<u64> {
        let last = members.last()?;
        let of = self.get(last.of)?;
        (matches!(of.kind, Kind::Array(_)) && of.bytes == 0).then_some(last.offset)
    }

    fn indexed(&self, of: &Type, element: DieRef, span: Span, depth: usize) -> Option<Leaf> {
        let inner = self.get(element)?;
        let within = usable_in_array(span, inner.bytes, of.bytes, false)?;
        let (first, in_element) = match inner.kind {
            Kind::Scalar | Kind::Pointer(_) => (span.offset, element_span(within, inner.bytes)?),
            _ => (span.offset, within),
        };
        let leaf = self.within(&inner, in_element, depth)?;
        let first = u64::try_from(first).ok()?;
        let path = if leaf.path.is_empty() || leaf.path.starts_with('[') {
            format!("[]{}", leaf.path)
        } else {
            format!("[].{}", leaf.path)
        };
        let (offset, bytes) = if span.step > 0 {
            (0, of.bytes.max(inner.bytes))
        } else {
            let element_start = first.checked_sub(u64::try_from(within.offset).ok()?)?;
            (element_start.checked_add(leaf.offset)?, leaf.bytes.max(vector_part(&leaf, span)))
        };
        Some(Leaf { path, offset, bytes, ..leaf })
    }

    fn inside(
        &self,
        of: &Type,
        members: &[Member],
        union: bool,
        span: Span,
        depth: usize,
    ) -> Option<Leaf> {
        if span.step > 0 && !union && self.arrays_that_fit(members, span.step, depth) != 1 {
            return None;
        }
        let from = u64::try_from(span.offset).ok()?;
        let whole = span.step == 0 && from == 0 && span.bytes == of.bytes;
        let plain = members.iter().filter(|member| member.bits.is_none());
        let fitting: Vec<(&Member, Leaf)> = plain
            .filter_map(|member| {
                self.spend()?;
                let offset = span.offset.checked_sub_unsigned(member.offset)?;
                (offset >= 0).then_some(())?;
                let inner = self.get(member.of)?;
                Some((member, self.within(&inner, Span { offset, ..span }, depth)?))
            })
            .take(NAMES_LIMIT)
            .collect();
        match &fitting[..] {
            [] if whole => Some(unnamed(0, of.bytes)),
            [] if span.step == 0 => self.covered(members, from, span.bytes),
            [] => None,
            all => alternatives(all),
        }
    }

    /// All or a part of one number or pointer.
    fn scalar(&self, of: &Type, span: Span) -> Option<Leaf> {
        let from = u64::try_from(span.offset).ok()?;
        let fits = span.step == 0 && from.checked_add(span.bytes)? <= of.bytes;
        fits.then_some(())?;
        let all = from == 0 && span.bytes == of.bytes;
        let target = match of.kind {
            Kind::Pointer(target) => target,
            Kind::Descriptor(element) => Some(element),
            _ => None,
        };
        let target = target.filter(|_| all).and_then(|target| self.own(target));
        Some(Leaf { scalar: Some(of.die), target, ..unnamed(0, of.bytes) })
    }

    /// How many arrays in a structure have elements that `step` may run over.
    fn arrays_that_fit(&self, members: &[Member], step: u64, depth: usize) -> usize {
        let Some(depth) = depth.checked_sub(1) else { return 0 };
        let fits = |member: &Member| {
            let Some(of) = self.spend().and_then(|()| self.get(member.of)) else { return 0 };
            match &of.kind {
                Kind::Array(element) => {
                    let size = self.get(*element).map_or(0, |element| element.bytes);
                    usize::from(size > 0 && step.is_multiple_of(size))
                }
                Kind::Record { members, .. } => self.arrays_that_fit(members, step, depth),
                _ => 0,
            }
        };
        members.iter().map(fits).sum()
    }

    /// Counts the examination of a member; `None` if there were too many.
    fn spend(&self) -> Option<()> {
        self.effort.set(self.effort.get().checked_sub(1)?);
        Some(())
    }

    /// Several members, or bit-fields, that an access covers together.
    fn covered(&self, members: &[Member], from: u64, bytes: u64) -> Option<Leaf> {
        let end = from.checked_add(bytes)?;
        let mut names: Vec<&str> = Vec::new();
        let (mut exact, mut covered, mut any) = (true, 0_u64, false);
        for member in members {
            let (first, last) = match member.bits {
                Some(bits) => (bits.first / 8, bits.first.checked_add(bits.size)?.div_ceil(8)),
                None => (member.offset, member.offset.checked_add(self.get(member.of)?.bytes)?),
            };
            if last <= from || end <= first {
                continue;
            }
            any = true;
            exact &= member.bits.is_some() || (from <= first && last <= end);
            let size = if member.bits.is_none() { last - first } else { 0 };
            covered = covered.saturating_add(size);
            match &member.name {
                Some(name) => names.push(name),
                None => exact = false,
            }
        }
        any.then_some(())?;
        let bits_only = covered == 0;
        let named = exact && (bits_only || covered == bytes) && names.len() <= NAMES_LIMIT;
        let path = if named { names.join("|") } else { String::new() };
        Some(Leaf { path, ..unnamed(from, bytes) })
    }
}

fn unnamed(offset: u64, bytes: u64) -> Leaf {
    Leaf { path: String::new(), offset, bytes, scalar: None, target: None }
}

/// The span in the element that it leads into.
fn usable_in_array(span: Span, element: u64, array: u64, many: bool) -> Option<Span> {
    (element > 0 && element <= i64::MAX.cast_unsigned()).then_some(())?;
    let size = element.cast_signed();
    if span.step > 0 {
        (span.step.is_multiple_of(element)).then_some(())?;
        (many || (0..size).contains(&span.offset)).then_some(())?;
    } else if array > 0 && !many {
        let end = span.offset.checked_add_unsigned(span.bytes)?;
        (span.offset >= 0 && end <= array.cast_signed()).then_some(())?;
    } else if !many {
        (span.offset >= 0).then_some(())?;
    }
    Some(Span { offset: span.offset.rem_euclid(size), step: 0, ..span })
}

/// The span in one number of an array of numbers: a vector access is that of its first.
fn element_span(span: Span, size: u64) -> Option<Span> {
    let offset = span.offset.rem_euclid(size.cast_signed());
    let several = offset == 0 && span.bytes >= VECTOR_BYTES && span.bytes.is_multiple_of(size);
    let bytes = if several && size < span.bytes { size } else { span.bytes };
    // A vector of bytes is as well a copied structure.
    (bytes == span.bytes || size > 1).then_some(Span { offset, step: 0, bytes })
}

fn vector_part(leaf: &Leaf, span: Span) -> u64 {
    if leaf.scalar.is_some() { span.bytes } else { 0 }
}

/// One member, or all that overlap there, as in a union: the range of the first.
fn alternatives(all: &[(&Member, Leaf)]) -> Option<Leaf> {
    let mut names: Vec<String> = Vec::new();
    for (member, leaf) in all {
        let name = match (&member.name, leaf.path.as_str()) {
            (None, path) => path.to_owned(),
            (Some(name), "") => name.to_string(),
            (Some(name), path) if path.starts_with('[') => format!("{name}{path}"),
            (Some(name), path) => format!("{name}.{path}"),
        };
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    let (member, first) = all.first()?;
    let agreed = all.iter().all(|(_, leaf)| leaf.scalar == first.scalar);
    Some(Leaf {
        path: names.join("|"),
        offset: member.offset.checked_add(first.offset)?,
        bytes: first.bytes,
        scalar: first.scalar.filter(|_| agreed),
        target: first.target.filter(|_| agreed),
    })
}

/// A pointer to a type, for which debug information has no entry of its own.
pub(super) fn pointer_to(of: DieRef) -> Leaf {
    Leaf { target: Some(of), ..unnamed(0, super::model::POINTER_BYTES) }
}
