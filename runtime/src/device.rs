//! Which device a model runs on: asked for once, resolved once, never replaced in silence; and what executors ask of one.

#[cfg(feature = "std")]
mod api;
#[cfg(feature = "std")]
mod gate;
#[cfg(feature = "std")]
mod memory;

#[cfg(feature = "std")]
pub use api::{Copies, Device, Failure, Launch, Stats, record};
#[cfg(feature = "std")]
pub use gate::{Gate, Pass};
#[cfg(feature = "std")]
pub use memory::{Allocation, Arg, Label, MemoryClass, Pointer, Release, ReleaseStage, Span, Stage, Staged};

use crate::Error;
#[cfg(feature = "cuda")]
use alloc::string::ToString;
use alloc::{format, string::String};
use core::fmt;

/// A device as a caller names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DeviceRequest {
    /// The processor.
    #[default]
    Cpu,
    /// An NVIDIA device, by its number.
    Cuda(u32),
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceRequest::Cpu => f.write_str("cpu"),
            DeviceRequest::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

impl core::str::FromStr for DeviceRequest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown = || Error::device(String::from(text), "there are `cpu` and `cuda:N`");
        match text {
            "cpu" => Ok(DeviceRequest::Cpu),
            "cuda" => Ok(DeviceRequest::Cuda(0)),
            _ => {
                let number = text.strip_prefix("cuda:").and_then(|n| n.parse().ok());
                number.map(DeviceRequest::Cuda).ok_or_else(unknown)
            }
        }
    }
}

/// A device that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceId {
    /// The processor.
    Cpu,
    /// An NVIDIA device.
    Cuda(u32),
}

/// Where a model was placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The device that it got.
    pub device: DeviceId,
    /// Why it did not get the one asked for; none: it did.
    pub fallback: Option<String>,
}

/// Finds the device asked for. Where it is not there, the processor takes its place only with `allow_fallback`, and the
/// placement says so.
///
/// # Errors
/// When the device is not there and no fallback is allowed.
pub fn resolve(request: DeviceRequest, allow_fallback: bool) -> Result<Placement, Error> {
    let reason = match request {
        DeviceRequest::Cpu => return Ok(Placement { device: DeviceId::Cpu, fallback: None }),
        DeviceRequest::Cuda(n) => match cuda(n) {
            Ok(()) => return Ok(Placement { device: DeviceId::Cuda(n), fallback: None }),
            Err(reason) => reason,
        },
    };
    if allow_fallback {
        let fallback = Some(format!("{request} was asked for: {reason}"));
        return Ok(Placement { device: DeviceId::Cpu, fallback });
    }
    Err(Error::device(format!("{request}"), reason))
}

/// Whether there is such a CUDA device; else why not.
#[cfg(feature = "cuda")]
fn cuda(ordinal: u32) -> Result<(), String> {
    use cudarc::driver::{result, sys};
    // SAFETY: looks for the driver's library and keeps it loaded; calls nothing in it.
    if !unsafe { sys::is_culib_present() } {
        let names: alloc::vec::Vec<String> =
            cudarc::get_lib_name_candidates("cuda").iter().map(ToString::to_string).collect();
        return Err(format!("no NVIDIA driver: none of these libraries could be loaded: {}", names.join(", ")));
    }
    result::init().map_err(|e| format!("the NVIDIA driver does not start: {e:?}"))?;
    let count = result::device::get_count().map_err(|e| format!("the NVIDIA driver lists no devices: {e:?}"))?;
    if i64::from(ordinal) < i64::from(count) {
        return Ok(());
    }
    Err(format!("the NVIDIA driver has {count} devices, numbered from 0"))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_ordinal: u32) -> Result<(), String> {
    Err(String::from("this build has no CUDA support (feature `cuda`)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn names_are_read_back() {
        for device in [DeviceRequest::Cpu, DeviceRequest::Cuda(3)] {
            assert_eq!(format!("{device}").parse::<DeviceRequest>(), Ok(device));
        }
        assert!("cuda:x".parse::<DeviceRequest>().is_err());
    }

    #[cfg(feature = "cuda")]
    #[test]
    fn a_missing_driver_is_named() {
        // With a driver there may be a device; without one, the libraries looked for are in the message.
        if let Err(reason) = cuda(0) {
            assert!(reason.contains("NVIDIA driver"), "{reason}");
            assert!(!reason.contains("none of these") || reason.contains("cuda"), "{reason}");
        }
    }

    /// Row E2.
    #[test]
    fn no_fallback_in_silence() {
        let far = DeviceRequest::Cuda(4_000_000);
        let error = resolve(far, false).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Device { .. }));
        let text = format!("{error}");
        assert!(text.contains("cuda:4000000") && text.contains("allow the fallback"), "{text}");
        let placement = resolve(far, true).unwrap();
        assert_eq!(placement.device, DeviceId::Cpu);
        assert!(placement.fallback.is_some_and(|f| f.contains("cuda:4000000")));
        assert_eq!(resolve(DeviceRequest::Cpu, false).unwrap().fallback, None);
    }
}
