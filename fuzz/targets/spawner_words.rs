//! Arbitrary bytes as words of the engine to the spawner, and of the spawner to the engine.
//!
//! Laws: a message is understood once it is there and not before; what follows it does not matter; what was
//! understood survives being packed and unpacked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::spawner::{LONGEST, Order, Reply, pack, unpack};
use std::fmt::Debug;

fuzz_target!(|bytes: &[u8]| {
    judge::<Order>(bytes);
    judge::<Reply>(bytes);
});

fn judge<T>(bytes: &[u8])
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + Debug,
{
    let said = unpack::<T>(bytes);
    let Some(length) = bytes.first_chunk().map(|length| u32::from_le_bytes(*length) as usize) else {
        return assert_eq!(said, Ok(None));
    };
    if length > LONGEST {
        return assert!(said.is_err());
    }
    let Some(whole) = bytes.get(..4 + length) else { return assert_eq!(said, Ok(None)) };
    assert_eq!(unpack::<T>(whole), said);
    assert_eq!(unpack::<T>(&whole[..3 + length]), Ok(None));
    if let Ok(message) = said {
        let (message, taken) = message.expect("all of it has arrived");
        assert_eq!(taken, whole.len());
        let packed = pack(&message).expect("what was JSON can be JSON");
        assert_eq!(unpack(&packed), Ok(Some((message, packed.len()))));
    }
}
