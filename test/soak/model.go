package main

import (
	"bufio"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
)

// A model is what a store must hold when its child is dead: what the commits up
// to settled lead to. The next one of each writer may be there too, or not: all
// of it or nothing. No other can be.
type model struct {
	Settled [writers]uint64
	Stamps  [writers][]stamp
}

func newModel(keys int) *model {
	m := new(model)
	for w := range m.Stamps {
		m.Stamps[w] = make([]stamp, keys/writers)
	}
	return m
}

// settle notes what became of the next commit of a writer.
func (m *model) settle(seed uint64, e entry) error {
	if e.writer >= writers || e.number != m.Settled[e.writer]+1 {
		return fmt.Errorf("the journal tells of commit %d of writer %d after commit %d", e.number, e.writer, m.Settled[e.writer])
	}
	m.Settled[e.writer] = e.number
	if !e.there {
		return nil
	}
	stamps := m.Stamps[e.writer]
	c := commitOf(seed, e.writer, e.number, len(stamps))
	for _, ch := range c.effects(func(slot int) stamp { return stamps[slot] }) {
		stamps[ch.slot] = ch.stamp
	}
	return nil
}

func (m *model) save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	return errors.Join(gob.NewEncoder(w).Encode(m), w.Flush(), f.Close())
}

func loadModel(path string) (*model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m := new(model)
	return m, gob.NewDecoder(bufio.NewReader(f)).Decode(m)
}

// An entry of the journal: commit number of a writer was acknowledged or found
// there; or it failed for good or was not found there.
type entry struct {
	writer int
	number uint64
	there  bool
}

const entrySize = 10

// A journal takes one write call an entry: what was written is there when the
// process is killed.
type journal struct{ file *os.File }

func createJournal(path string) (*journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o666)
	return &journal{f}, err
}

func (j *journal) add(e entry) error {
	b := [entrySize]byte{byte(e.writer), 0}
	if e.there {
		b[1] = 1
	}
	binary.LittleEndian.PutUint64(b[2:], e.number)
	_, err := j.file.Write(b[:])
	return err
}

// readJournal calls fn for each entry. A child that was killed early has not
// written one.
func readJournal(path string, fn func(entry) error) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		var b [entrySize]byte
		if _, err := io.ReadFull(r, b[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		if err := fn(entry{int(b[0]), binary.LittleEndian.Uint64(b[2:]), b[1] == 1}); err != nil {
			return err
		}
	}
}
