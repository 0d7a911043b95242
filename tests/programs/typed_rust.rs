//! What types say about memory accesses in Rust: structures, slices, vectors, boxes, enumerations. The marks are as in
//! typed_accesses.c.
//! What not: a program of the corpus; it is looked at and need not run. Assumption: symbols keep their names.

pub struct Node {
    value: i64,
    next: Option<Box<Node>>,
}

#[repr(C)]
pub struct Particle {
    position: [f64; 3],
    mass: f64,
    kind: u32,
}

pub enum Shape {
    Circle(f64),
    Square { side: f64 },
}

#[inline(never)]
fn push(all: &mut [Particle], force: f64) {
    for one in all {
        one.mass += force; // type: typed_rust::Particle.mass
        one.kind = 3; // type: typed_rust::Particle.kind
    }
}

#[inline(never)]
fn total(list: &Node) -> i64 {
    let mut sum = list.value; // type: typed_rust::Node.value
    let mut at = &list.next; // type: typed_rust::Node.next
    while let Some(node) = at {
        // The pointer of the box is loaded first.
        sum += node.value; // type: typed_rust::Node.value typed_rust::Node.next.Some.__0 core::option::Option<alloc::boxed::Box<typed_rust::Node,~alloc::alloc::Global>>.Some.__0
        at = &node.next;
    }
    sum
}

#[inline(never)]
fn middle(one: &Particle) -> f64 {
    one.position[1] + one.mass // type: typed_rust::Particle.position[] typed_rust::Particle.mass
}

#[inline(never)]
fn area(shape: &Shape) -> f64 {
    match shape {
        Shape::Circle(radius) => radius * radius * 3.0,
        Shape::Square { side } => side * side,
    }
}

// end of marks
fn main() {
    let mut all: Vec<Particle> =
        (0..10).map(|i| Particle { position: [1.0, i as f64, 3.0], mass: 2.0, kind: 0 }).collect();
    push(&mut all, 0.5);
    let list = Node { value: 1, next: Some(Box::new(Node { value: 2, next: None })) };
    let shapes = [Shape::Circle(1.0), Shape::Square { side: 2.0 }];
    let areas: f64 = shapes.iter().map(area).sum();
    println!("{} {} {}", total(&list), middle(&all[1]), areas);
}
