package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
)

// mapped returns a file of two pages and its mapping.
func mapped(t *testing.T) (*osFile, *mapping) {
	f := create(t, Default, filepath.Join(t.TempDir(), "a"), "").(*osFile)
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Preallocate(8192); err == ErrUnsupported {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	m, err := f.Map(8192)
	if err == ErrUnsupported {
		t.Skip(err)
	}
	must(t, err)
	t.Cleanup(func() { m.Unmap() })
	return f, m.(*mapping)
}

// A signal in a write to the mapping is an error of that write, not the end
// of the process.
func TestMapping_FaultIsAnError(t *testing.T) {
	f, m := mapped(t)
	_, err := m.WriteAt([]byte("x"), 5000)
	must(t, err)
	must(t, f.Truncate(4096))
	before := debug.SetPanicOnFault(false)
	n, err := m.WriteAt([]byte("abc"), 5000)
	if n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("WriteAt behind the file's new end = %d, %v, want 0, EIO", n, err)
	}
	if debug.SetPanicOnFault(before) {
		t.Error("faults are panics after the write; the setting was not restored")
	}
	// The fault is final, though this page is there.
	if _, again := m.WriteAt([]byte("abc"), 0); again != err {
		t.Errorf("next WriteAt: error %v, want %v", again, err)
	}
	must(t, m.Unmap())
}

func TestMapping_RestoresSetting(t *testing.T) {
	_, m := mapped(t)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	_, err := m.WriteAt([]byte("abc"), 0)
	must(t, err)
	if !debug.SetPanicOnFault(true) {
		t.Error("a write turned the caller's setting off")
	}
}

// An aFault is the value of a panic, as that of a fault.
type aFault struct{}

func (aFault) Addr() uintptr { return 1 }

// If the cause of a fault is gone when a call writes the same bytes, the
// caller gets no error. The bytes are in the file, and so are later ones.
func TestMapping_FaultThatPasses(t *testing.T) {
	f, m := mapped(t)
	n, err := m.fault(aFault{}, []byte("abc"), 5000)
	if n != 3 || err != nil {
		t.Fatalf("fault = %d, %v, want 3 bytes written", n, err)
	}
	_, err = m.WriteAt([]byte("de"), 5003)
	must(t, err)
	got := make([]byte, 5)
	_, err = f.ReadAt(got, 5000)
	must(t, err)
	if string(got) != "abcde" {
		t.Errorf("the file has %q, want abcde", got)
	}
	must(t, f.Close())
	if _, err := m.WriteAt([]byte("f"), 5005); err == nil {
		t.Error("a write by call to a closed file works")
	}
}

func TestMapping_OtherPanicsGoOn(t *testing.T) {
	_, m := mapped(t)
	defer func() {
		if r := recover(); r != "other" {
			t.Errorf("recovered %v, want %q", r, "other")
		}
	}()
	_, _ = m.fault("other", nil, 0)
}

func TestMapping_ReadOnlyFile(t *testing.T) {
	f, _ := mapped(t)
	r, err := Default.Open(f.f.Name())
	must(t, err)
	defer r.Close()
	if m, err := r.(Mapper).Map(4096); err == nil {
		m.Unmap()
		t.Error("a file opened for reading was mapped for writing")
	}
}

// If the disk has no room, Preallocate fails, and the file is as before.
func TestPreallocate_NoRoom(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f := create(t, Default, name, "abc")
	defer f.Close()
	err := f.Preallocate(1 << 50)
	if err == ErrUnsupported {
		t.Skip(err)
	}
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Preallocate(1 PB) = %v, want ENOSPC or EFBIG", err)
	}
	wantFile(t, Default, name, "abc")
}

func TestPageCache(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	f := create(t, faultless(Default), name, "")
	defer f.Close()
	_, err := f.Write(make([]byte, 64<<10))
	must(t, err)
	must(t, f.Sync())
	in, total, err := ResidentPages(f)
	if err == ErrUnsupported {
		t.Skip(err)
	}
	must(t, err)
	if want := (64 << 10) / os.Getpagesize(); total != want || in != want {
		t.Errorf("ResidentPages after a write = %d of %d, want all of %d", in, total, want)
	}
	must(t, DropCache(f))
	// There is no exact figure here, because the system may keep any pages (tmpfs keeps all).
	if in, _, err := ResidentPages(f); err != nil || in > total {
		t.Errorf("ResidentPages after DropCache = %d of %d, %v", in, total, err)
	} else {
		t.Logf("%d of %d pages left by DropCache", in, total)
	}
}

func TestPageCache_Unsupported(t *testing.T) {
	f := create(t, NewMem(), "a", "abc")
	defer f.Close()
	wantError(t, "DropCache", DropCache(f), ErrUnsupported)
	_, _, err := ResidentPages(f)
	wantError(t, "ResidentPages", err, ErrUnsupported)
}
