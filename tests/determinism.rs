//! The same model and options give the same bytes, from any folder.

mod common;

use std::fs;

#[test]
fn emitting_twice_gives_the_same_bytes() {
    let Some(models) = common::data("models") else { return };
    for (model, dims) in [("magika", vec!["unk__214=1"]), ("crnn-lstm", vec!["input1#3=40..=400/8"])] {
        let (first, second) = (common::scratch(&format!("{model}-a")), common::scratch(&format!("{model}-b")));
        // The second time from another folder.
        let copy = second.join(format!("{model}.onnx"));
        fs::copy(models.join(format!("{model}.onnx")), &copy).unwrap();
        for (file, out) in [(models.join(format!("{model}.onnx")), &first), (copy, &second)] {
            let mut args = vec!["emit".into(), file.into_os_string(), "-o".into(), out.clone().into_os_string()];
            for d in &dims {
                args.extend(["--dim".into(), d.into()]);
            }
            let (code, stdout, err) = common::planner(args);
            assert_eq!(code, 0, "{model}: {stdout}{err}");
        }
        let mut compared = 0;
        for entry in fs::read_dir(&first).unwrap() {
            let name = entry.unwrap().file_name();
            assert_eq!(
                fs::read(first.join(&name)).unwrap(),
                fs::read(second.join(&name)).unwrap(),
                "{model}: {name:?}"
            );
            compared += 1;
        }
        assert!(compared >= 3, "{model}: only {compared} files were written");
    }
}
