//! Objects of Python with Rust's idea of ownership, and the few things that are done with them.

use super::Raw;
use super::interpreter::{Python, Raised};
use std::ffi::{CStr, c_int, c_long, c_ulong};

/// A reference to an object, given back when dropped.
pub(crate) struct Object {
    pub(super) python: Python,
    pub(super) raw: Raw,
}

/// Which object it is, for as long as it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity(usize);

const PRINT_RAW: c_int = 1;
const TYPE_SUBCLASS: c_ulong = 1 << 31;
const HAVE_GC: c_ulong = 1 << 14;
const TP_FINALIZE: c_int = 80;
const TP_DEL: c_int = 53;

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference, and nobody uses it afterwards.
        unsafe { (self.python.interface.Py_DecRef)(self.raw) }
    }
}

impl Clone for Object {
    fn clone(&self) -> Object {
        self.python.share(self.raw)
    }
}

impl Object {
    pub(super) fn give_away(self) -> Raw {
        let raw = self.raw;
        std::mem::forget(self);
        raw
    }

    pub(crate) fn is_none(&self) -> bool {
        self.raw == self.python.interface.none
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity(self.raw as usize)
    }

    pub(crate) fn attribute(&self, name: &CStr) -> Result<Object, Raised> {
        // SAFETY: a live object and a C string.
        self.python.own(unsafe { (self.python.interface.PyObject_GetAttrString)(self.raw, name.as_ptr()) })
    }

    pub(crate) fn call(&self, arguments: &[&Object]) -> Result<Object, Raised> {
        let interface = self.python.interface;
        // SAFETY: makes a new object.
        let tuple = self.python.own(unsafe { (interface.PyTuple_New)(arguments.len() as isize) })?;
        for (index, argument) in arguments.iter().enumerate() {
            let argument = Object::clone(argument).give_away();
            // SAFETY: the tuple is new, has that place, and takes over the reference.
            Python::done(unsafe { (interface.PyTuple_SetItem)(tuple.raw, index as isize, argument) })?;
        }
        // SAFETY: a live object, a tuple, no keywords.
        self.python.own(unsafe { (interface.PyObject_Call)(self.raw, tuple.raw, std::ptr::null_mut()) })
    }

    pub(crate) fn call_method(&self, name: &CStr, arguments: &[&Object]) -> Result<Object, Raised> {
        self.attribute(name)?.call(arguments)
    }

    pub(crate) fn text(&self) -> Result<Object, Raised> {
        // SAFETY: a live object.
        self.python.own(unsafe { (self.python.interface.PyObject_Str)(self.raw) })
    }

    pub(crate) fn representation(&self) -> Result<Object, Raised> {
        // SAFETY: a live object.
        self.python.own(unsafe { (self.python.interface.PyObject_Repr)(self.raw) })
    }

    /// The characters of a string.
    pub(crate) fn to_string_lossy(&self) -> Option<String> {
        let mut length = 0;
        // SAFETY: a live object and a place for the length. Of anything but a string nothing comes back.
        let bytes = unsafe { (self.python.interface.PyUnicode_AsUTF8AndSize)(self.raw, &raw mut length) };
        if bytes.is_null() {
            self.python.clear_error();
            return None;
        }
        // SAFETY: Python said how long it is, and it lives as long as the object.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) };
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// Whether it counts as true. If that raises, it does not.
    pub(crate) fn is_true(&self) -> bool {
        // SAFETY: a live object.
        let answer = unsafe { (self.python.interface.PyObject_IsTrue)(self.raw) };
        if answer < 0 {
            self.python.clear_error();
        }
        answer == 1
    }

    pub(crate) fn is_module(&self) -> bool {
        // SAFETY: live objects.
        unsafe { (self.python.interface.PyObject_IsInstance)(self.raw, self.python.interface.module) == 1 }
    }

    /// Whether it is a `SystemExit`.
    pub(crate) fn is_exit(&self) -> bool {
        // SAFETY: live objects.
        unsafe {
            (self.python.interface.PyObject_IsInstance)(self.raw, *self.python.interface.system_exit) == 1
        }
    }

    /// The number, if it is one that C can have.
    pub(crate) fn to_number(&self) -> Option<c_long> {
        let interface = self.python.interface;
        // SAFETY: live objects; what does not fit sets an exception.
        let (is_number, number) = unsafe {
            match (interface.PyObject_IsInstance)(self.raw, interface.integer) {
                1 => (true, (interface.PyLong_AsLong)(self.raw)),
                _ => (false, 0),
            }
        };
        // SAFETY: asks whether an exception is set.
        let fits = unsafe { (interface.PyErr_Occurred)() }.is_null();
        self.python.clear_error();
        (is_number && fits).then_some(number)
    }

    pub(crate) fn is_text(&self) -> bool {
        // SAFETY: live objects.
        unsafe { (self.python.interface.PyObject_IsInstance)(self.raw, self.python.interface.text) == 1 }
    }

    /// Writes it to an object that is like a file, as `print` would.
    pub(crate) fn write_to(&self, file: &Object) -> Result<(), Raised> {
        // SAFETY: live objects.
        Python::done(unsafe { (self.python.interface.PyFile_WriteObject)(self.raw, file.raw, PRINT_RAW) })
    }

    pub(crate) fn class(&self) -> Result<Object, Raised> {
        // SAFETY: a live object.
        self.python.own(unsafe { (self.python.interface.PyObject_Type)(self.raw) })
    }

    pub(crate) fn is_class(&self) -> bool {
        // SAFETY: live objects; asks for the class of the object and its bases, and runs no code of a program.
        unsafe {
            let class = (self.python.interface.PyObject_Type)(self.raw);
            let flags = (self.python.interface.PyType_GetFlags)(class);
            (self.python.interface.Py_DecRef)(class);
            flags & TYPE_SUBCLASS != 0
        }
    }

    pub(crate) fn is_weak_reference(&self) -> bool {
        let interface = self.python.interface;
        // SAFETY: live objects.
        unsafe { (interface.PyObject_IsInstance)(self.raw, interface.weak_reference) == 1 }
    }

    /// Of a weak reference: what is to be called when the object it refers to goes.
    pub(crate) fn observer(&self) -> Option<Object> {
        let observer = if self.is_weak_reference() { self.attribute(c"__callback__").ok() } else { None };
        observer.filter(|observer| !observer.is_none())
    }

    /// Of a class: whether garbage collection knows its objects.
    pub(crate) fn is_collected_class(&self) -> bool {
        // SAFETY: a class.
        unsafe { (self.python.interface.PyType_GetFlags)(self.raw) & HAVE_GC != 0 }
    }

    /// Of a class: whether something happens when an object of it is destroyed. What cannot be told counts as yes.
    pub(crate) fn has_finalizer(&self) -> bool {
        let interface = self.python.interface;
        [TP_FINALIZE, TP_DEL].into_iter().any(|slot| {
            // SAFETY: a class and the number of a slot that every class has.
            let function = unsafe { (interface.PyType_GetSlot)(self.raw, slot) };
            // SAFETY: asks whether an exception is set: Python 3.9 does not tell of classes written in C.
            let refused = function.is_null() && !unsafe { (interface.PyErr_Occurred)() }.is_null();
            if refused {
                self.python.clear_error();
            }
            refused || !function.is_null()
        })
    }

    /// A reference that does not keep it alive, to be called for the object or `None`.
    pub(crate) fn weakly(&self) -> Result<Object, Raised> {
        // SAFETY: a live object, no callback.
        self.python.own(unsafe { (self.python.interface.PyWeakref_NewRef)(self.raw, std::ptr::null_mut()) })
    }

    /// The dictionary of a module.
    pub(crate) fn namespace(&self) -> Object {
        // SAFETY: callers have a module, which owns a dictionary.
        self.python.share(unsafe { (self.python.interface.PyModule_GetDict)(self.raw) })
    }

    /// Adds to the end of a list.
    pub(crate) fn append(&self, value: &Object) -> Result<(), Raised> {
        // SAFETY: a list and a live object.
        Python::done(unsafe { (self.python.interface.PyList_Append)(self.raw, value.raw) })
    }

    /// Adds to the beginning of a list.
    pub(crate) fn prepend(&self, value: &Object) -> Result<(), Raised> {
        // SAFETY: Python checks that it is a list; the other is a live object.
        Python::done(unsafe { (self.python.interface.PyList_Insert)(self.raw, 0, value.raw) })
    }

    /// What is in a list.
    pub(crate) fn items(&self) -> impl Iterator<Item = Object> + '_ {
        let interface = self.python.interface;
        // SAFETY: callers have a list; its length is asked for before each item.
        let length = move || unsafe { (interface.PyList_Size)(self.raw) };
        (0..).take_while(move |index| *index < length()).map(move |index| {
            // SAFETY: there is such an item, which the list owns until it is shared.
            self.python.share(unsafe { (interface.PyList_GetItem)(self.raw, index) })
        })
    }

    /// What a dictionary has under a name.
    pub(crate) fn get(&self, name: &CStr) -> Option<Object> {
        // SAFETY: a dictionary and a C string; what comes back is owned by the former until it is shared.
        let raw = unsafe { (self.python.interface.PyDict_GetItemString)(self.raw, name.as_ptr()) };
        (!raw.is_null()).then(|| self.python.share(raw))
    }

    pub(crate) fn set(&self, name: &CStr, value: &Object) -> Result<(), Raised> {
        // SAFETY: a dictionary, a C string, a live object.
        Python::done(unsafe {
            (self.python.interface.PyDict_SetItemString)(self.raw, name.as_ptr(), value.raw)
        })
    }

    pub(crate) fn remove(&self, name: &CStr) -> Result<(), Raised> {
        // SAFETY: a dictionary and a C string.
        Python::done(unsafe { (self.python.interface.PyDict_DelItemString)(self.raw, name.as_ptr()) })
    }

    pub(crate) fn item(&self, key: &Object) -> Option<Object> {
        // SAFETY: a dictionary and a live object; what comes back is owned by the former until it is shared.
        let raw = unsafe { (self.python.interface.PyDict_GetItem)(self.raw, key.raw) };
        (!raw.is_null()).then(|| self.python.share(raw))
    }

    pub(crate) fn set_item(&self, key: &Object, value: &Object) -> Result<(), Raised> {
        // SAFETY: a dictionary and live objects.
        Python::done(unsafe { (self.python.interface.PyDict_SetItem)(self.raw, key.raw, value.raw) })
    }

    /// Empties a dictionary.
    pub(crate) fn clear(&self) {
        // SAFETY: a dictionary.
        unsafe { (self.python.interface.PyDict_Clear)(self.raw) }
    }

    /// Takes over everything another dictionary has.
    pub(crate) fn update(&self, other: &Object) -> Result<(), Raised> {
        // SAFETY: two dictionaries.
        Python::done(unsafe { (self.python.interface.PyDict_Update)(self.raw, other.raw) })
    }

    /// A dictionary with the same entries.
    pub(crate) fn copy(&self) -> Result<Object, Raised> {
        // SAFETY: Python checks that it is a dictionary.
        self.python.own(unsafe { (self.python.interface.PyDict_Copy)(self.raw) })
    }

    /// The keys of a dictionary, in its order, whose values are wanted.
    pub(crate) fn keys(&self, wanted: impl Fn(Identity) -> bool) -> Vec<Object> {
        self.walk(|key, value| wanted(Identity(value as usize)).then_some(key))
    }

    /// The values of a dictionary, in its order.
    pub(crate) fn values(&self) -> Vec<Object> {
        self.walk(|_, value| Some(value))
    }

    fn walk(&self, choose: impl Fn(Raw, Raw) -> Option<Raw>) -> Vec<Object> {
        let mut chosen = Vec::new();
        let mut position = 0;
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: a dictionary, which does not change while it is walked: sharing runs no code.
        while unsafe {
            (self.python.interface.PyDict_Next)(self.raw, &raw mut position, &raw mut key, &raw mut value)
                != 0
        } {
            chosen.extend(choose(key, value).map(|raw| self.python.share(raw)));
        }
        chosen
    }
}
