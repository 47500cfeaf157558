//! Data in files beside the model.

use std::fs;
use std::path::PathBuf;

use super::super::fields::{entry, tensor as field};
use super::super::{Error, ErrorKind, Tensor, read};
use super::encode::{Msg, constant_model, tensor};
use super::{has, refusal};

/// A folder of its own that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("planner-onnx-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("model")).unwrap();
        fs::write(path.join("secret"), [1; 64]).unwrap();
        fs::write(path.join("model/data.bin"), (0..64).collect::<Vec<u8>>()).unwrap();
        Self(path)
    }

    fn read(&self, entries: &[(&str, &str)]) -> Result<Tensor, Error> {
        let path = self.0.join("model/m.onnx");
        fs::write(&path, constant_model(external(entries)).0).unwrap();
        read(&path).map(|model| model.graph.initializers[0].clone())
    }

    #[track_caller]
    fn refuses(&self, entries: &[(&str, &str)], parts: &[&str]) {
        let error = self.read(entries).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ExternalData);
        assert_eq!(error.tensor(), Some("`w`"));
        has(&error.to_string(), &["m.onnx", "tensor `w`"]);
        has(&error.to_string(), parts);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn external(entries: &[(&str, &str)]) -> Msg {
    entries.iter().fold(tensor("w", 1, &[2]).int(field::DATA_LOCATION, 1), |message, (key, value)| {
        let pair = Msg::default().text(entry::KEY, key).text(entry::VALUE, value);
        message.msg(field::EXTERNAL_DATA, pair)
    })
}

#[test]
fn ranges_of_a_file() {
    let folder = Folder::new("ranges");
    let bytes = |entries: &[(&str, &str)]| folder.read(entries).unwrap().bytes().unwrap().to_vec();
    assert_eq!(bytes(&[("location", "data.bin")]), (0..8).collect::<Vec<u8>>());
    assert_eq!(bytes(&[("location", "./data.bin"), ("offset", "56"), ("length", "8")]), (56..64).collect::<Vec<u8>>());
    let place = ("location", "data.bin");
    folder.refuses(&[place, ("offset", "57")], &["8 bytes at offset 57", "64"]);
    folder.refuses(&[place, ("offset", "18446744073709551615")], &["at offset"]);
    folder.refuses(&[place, ("offset", "-1")], &["offset `-1`"]);
    folder.refuses(&[place, ("length", "4")], &["4 bytes", "8"]);
    folder.refuses(&[], &["without a location"]);
    folder.refuses(&[("location", "none.bin")], &["`none.bin`", "cannot open", "beside the model"]);
    folder.refuses(&[("location", ".")], &["cannot open"]);
}

#[test]
fn never_outside_the_folder() {
    let folder = Folder::new("outside");
    let absolute = folder.0.join("secret");
    let absolute = absolute.to_str().unwrap();
    for escape in ["../secret", "../../../../../../etc/passwd", "/etc/passwd", absolute, "x/../data.bin", ""] {
        folder.refuses(&[("location", escape)], &[escape, "outside the model's folder", "put the file"]);
    }
    #[cfg(unix)]
    {
        let target = folder.0.join("secret");
        std::os::unix::fs::symlink(target, folder.0.join("model/link")).unwrap();
        folder.refuses(&[("location", "link")], &["`link`", "outside the model's folder"]);
        std::os::unix::fs::symlink(&folder.0, folder.0.join("model/up")).unwrap();
        folder.refuses(&[("location", "up/secret")], &["outside the model's folder"]);
        std::os::unix::fs::symlink("data.bin", folder.0.join("model/inner")).unwrap();
        assert!(folder.read(&[("location", "inner")]).is_ok());
    }
}

#[test]
fn needs_a_folder_and_no_other_data() {
    let text = refusal(&constant_model(external(&[("location", "data.bin")])).0);
    has(&text, &["`w`", "without a folder"]);
    let both = external(&[("location", "data.bin")]).bytes(field::RAW_DATA, &[0; 8]);
    has(&refusal(&constant_model(both).0), &["both inner and external"]);
}

#[test]
fn what_cannot_be_opened() {
    let folder = Folder::new("open");
    for path in [folder.0.join("none.onnx"), folder.0.clone()] {
        let error = read(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        has(&error.to_string(), &["cannot open the file: "]);
        assert_eq!(error.chain().len(), 3);
    }
    fs::write(folder.0.join("empty.onnx"), []).unwrap();
    has(&read(&folder.0.join("empty.onnx")).unwrap_err().to_string(), &["empty.onnx", "empty"]);
}
