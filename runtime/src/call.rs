//! What devices are asked to do, and why they do not.

use core::fmt;
use kernels::Fault;

/// A call of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum DeviceCall {
    Alloc,
    Free,
    Stage,
    FreeStage,
    Write,
    Read,
    Fill,
    Upload,
    Download,
    Launch,
    Sync,
    BeginCapture,
    EndCapture,
    Replay,
}

impl DeviceCall {
    /// The call in a message.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceCall::Alloc => "alloc",
            DeviceCall::Free => "free",
            DeviceCall::Stage => "alloc of host memory",
            DeviceCall::FreeStage => "free of host memory",
            DeviceCall::Write => "write from pageable memory",
            DeviceCall::Read => "read",
            DeviceCall::Fill => "fill",
            DeviceCall::Upload => "copy to the device",
            DeviceCall::Download => "copy to the host",
            DeviceCall::Launch => "launch",
            DeviceCall::Sync => "sync",
            DeviceCall::BeginCapture => "begin of a capture",
            DeviceCall::EndCapture => "end of a capture",
            DeviceCall::Replay => "replay",
        }
    }
}

impl fmt::Display for DeviceCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a device did not do what it was asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceProblem {
    /// The device's memory does not hold it.
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// Bytes in use.
        used: usize,
        /// Bytes that there are.
        capacity: usize,
    },
    /// The memory belongs to another device.
    Foreign {
        /// The device that it belongs to.
        owner: u32,
    },
    /// No allocation has this address.
    Unknown {
        /// The address.
        address: u64,
    },
    /// The memory has been given back.
    Dead {
        /// The address.
        address: u64,
        /// The allocation that it was of.
        generation: u64,
    },
    /// It reaches beyond its allocation.
    Outside {
        /// The address.
        address: u64,
        /// Bytes from there.
        bytes: usize,
        /// Bytes that the allocation has there.
        room: usize,
    },
    /// A kernel would write a constant.
    ReadOnly,
    /// The bytes around an allocation have been written.
    RedZone {
        /// The allocation's address.
        address: u64,
    },
    /// The kernel failed.
    Fault(Fault),
    /// The call is forbidden while a capture records.
    Capturing,
    /// The capture was made invalid by this call.
    Invalidated {
        /// The call.
        by: DeviceCall,
    },
    /// No capture records.
    NotCapturing,
    /// The device itself refuses.
    Refused(&'static str),
}

impl From<Fault> for DeviceProblem {
    fn from(fault: Fault) -> DeviceProblem {
        DeviceProblem::Fault(fault)
    }
}

impl fmt::Display for DeviceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceProblem::OutOfMemory { bytes, used, capacity } => {
                write!(f, "out of device memory: {bytes} bytes asked for, {used} of {capacity} are in use")
            }
            DeviceProblem::Foreign { owner } => write!(f, "the memory belongs to device {owner}"),
            DeviceProblem::Unknown { address } => write!(f, "{address:#x} is no address of this device's memory"),
            DeviceProblem::Dead { address, generation } => {
                write!(f, "the memory at {address:#x} (allocation {generation}) has been given back")
            }
            DeviceProblem::Outside { address, bytes, room } => {
                write!(f, "{bytes} bytes at {address:#x} where the allocation has {room}")
            }
            DeviceProblem::ReadOnly => f.write_str("a kernel would write a constant"),
            DeviceProblem::RedZone { address } => {
                write!(f, "the bytes around the allocation at {address:#x} have been written")
            }
            DeviceProblem::Fault(fault) => fault.fmt(f),
            DeviceProblem::Capturing => f.write_str("not allowed while a capture records"),
            DeviceProblem::Invalidated { by } => write!(f, "the capture was made invalid by a {by}"),
            DeviceProblem::NotCapturing => f.write_str("no capture records"),
            DeviceProblem::Refused(why) => f.write_str(why),
        }
    }
}
