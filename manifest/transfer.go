package manifest

import (
	"errors"
	"fmt"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/durable"
	"github.com/shaledb/shale/vfs"
)

// The functions of this file are for programs that keep edits and states elsewhere than in the
// directory of a store. The bytes are those of a manifest (docs/FORMAT.md, section 5).

// Encode appends e to dst, in the form that a record of a manifest has. It refuses an edit
// that DecodeEdit would refuse. dst belongs to the caller.
func (e *Edit) Encode(dst []byte) ([]byte, error) {
	err := e.check()
	if err == nil {
		err = e.checkSidecars()
	}
	if err != nil {
		return dst, fmt.Errorf("manifest: encode edit: %w", err)
	}
	return e.appendTo(dst), nil
}

// DecodeEdit is the inverse of Edit.Encode. It allocates at most a small multiple of len(src),
// and keeps no part of src. If src has a field that this program does not know and must not
// skip, the error wraps base.ErrFormatTooNew. Whether the edit fits to a version is not
// checked here, but by Version.Apply.
func DecodeEdit(src []byte) (*Edit, error) {
	e, err := decodeEdit(src)
	if err == nil {
		err = e.check() // the rest of it, as decodeEdit leaves some checks to the reader of a manifest
	}
	if err != nil {
		return nil, fmt.Errorf("manifest: decode edit: %w", err)
	}
	return e, nil
}

// check returns what is impossible about e by itself, except for its sidecars.
func (e *Edit) check() error {
	if _, _, err := e.byLevel(); err != nil {
		return err
	}
	for _, a := range e.Added {
		if err := a.Table.check(); err != nil {
			return err
		}
	}
	if s := e.SealedLog; s != nil && (s.Length < 0 || s.LastSeq > base.MaxSeq) {
		return fmt.Errorf("log %s is sealed with length %d and sequence number %d", s.Num, s.Length, s.LastSeq)
	}
	if e.Clock < 0 {
		return fmt.Errorf("clock %d is negative", e.Clock)
	}
	if e.LastSeq > base.MaxSeq {
		return fmt.Errorf("sequence number %d is too large", e.LastSeq)
	}
	return nil
}

// checkSidecars returns what is impossible about the sidecars that e gives to tables.
func (e *Edit) checkSidecars() error {
	given, err := e.sidecarsByLevel()
	if err != nil {
		return err
	}
	total := 0
	for _, level := range given {
		total += len(level)
	}
	if total != len(e.Sidecars) {
		return errors.New("a table gets two sidecars")
	}
	for _, b := range e.Sidecars {
		if err := b.Sidecar.check(); err != nil {
			return fmt.Errorf("table %s: %w", b.Num, err)
		}
	}
	for _, a := range e.Added {
		if a.Table.Sidecar != nil && given[a.Level][a.Table.Num].Sidecar != nil {
			return fmt.Errorf("level %d: table %s gets two sidecars", a.Level, a.Table.Num)
		}
	}
	return nil
}

// Encode appends a whole manifest with the number num that says s: the bytes of the file that
// Create would write. dst belongs to the caller.
func (s *State) Encode(dst []byte, num base.FileNum) ([]byte, error) {
	snap := *s
	snap.NextFileNum = max(snap.NextFileNum, num+1)
	if snap.Version == nil {
		snap.Version = new(Version)
	}
	if err := snap.Version.Check(); err != nil {
		return dst, fmt.Errorf("manifest: encode state: %w", err)
	}
	start := len(dst)
	out := appendHeader(dst, s.StoreID, num)
	records := newChain(out[start:])
	var counted State // refuses what a reader of the manifest would refuse
	var payload []byte
	err := snap.snapshot(func(e *Edit) error {
		payload = e.appendTo(payload[:0])
		if len(payload) > 0 {
			out = records.appendRecord(out, payload)
		}
		return errors.Join(e.check(), counted.applyCounters(e))
	})
	if err != nil {
		return dst, fmt.Errorf("manifest: encode state: %w", err)
	}
	return out, nil
}

// DecodeState is the inverse of State.Encode. num must be the one that was given to it. A
// record that is cut is always damage here, because the bytes were complete once. But whole
// records that are missing at the end can't be noticed. So a program that keeps the bytes must
// keep their length, or a checksum of all of them. DecodeState allocates at most a small
// multiple of len(src), and keeps no part of src.
//
// The error wraps a *base.CorruptionError with the name of the manifest, or
// base.ErrFormatTooNew.
func DecodeState(src []byte, num base.FileNum) (*State, error) {
	mem := vfs.NewMem()
	if err := durable.Write(mem, base.ManifestName(num), src); err != nil {
		return nil, fmt.Errorf("manifest: decode state: %w", err)
	}
	s, err := load(mem, "", current{manifest: num, durable: int64(len(src))})
	if err != nil {
		return nil, err
	}
	s.chain, s.line = chain{}, "" // nothing is appended to these bytes, so there is nothing to follow
	return s, nil
}
