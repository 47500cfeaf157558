fn main() -> flightplan::build::Result {
    let a: Vec<String> = std::env::args().collect();
    let mut m = flightplan::build::Model::new(&a[1]);
    for d in &a[3..] {
        if let Some(d) = d.strip_prefix("fix:") {
            let (n, v) = d.split_once('=').unwrap();
            m = m.fix(n, v.parse::<i64>().unwrap());
            continue;
        }
        if let Some(d) = d.strip_prefix("state:") {
            let (n, v) = d.split_once('=').unwrap();
            m = m.state(n, v);
            continue;
        }
        let (n, r) = d.split_once('=').unwrap();
        m = match r.split_once("..=") {
            Some((lo, hi)) => m.dim(n, lo.parse::<i64>().unwrap()..=hi.parse::<i64>().unwrap()),
            None => m.dim(n, r.parse::<i64>().unwrap()),
        };
    }
    for w in m.emit_to(std::path::Path::new(&a[2]))? {
        println!("warning: {w}");
    }
    Ok(())
}
