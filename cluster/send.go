package cluster

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/vfs"
)

const (
	// stallTimeout is how long a transfer of files waits for the other side to read or write anything.
	stallTimeout = time.Minute

	// streamPiece is how many bytes of a file are sent at once.
	streamPiece = 64 << 10
)

// A stallingConn is a connection whose reads and writes fail when nothing moves for a time. A piece has to get through
// within it.
type stallingConn struct {
	net.Conn
	patience time.Duration
}

// Read gives the other side its patience again with each call.
func (c stallingConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.patience)) // a closed connection fails below
	return c.Conn.Read(p)
}

// Write does the same. A slow link is no failure as long as each piece gets through in time.
func (c stallingConn) Write(p []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.patience)) // as above
	return c.Conn.Write(p)
}

// errDeposed ends a transfer whose leader leads no more, or stops.
var errDeposed = errors.New("cluster: this member does not lead any more")

// sendSnapshot sends the files of a snapshot that a member lacks. The log behind the snapshot stays meanwhile.
//
// The transfer ends by itself when this member leads no more, since the next leader begins one of
// its own. It can be limited to Options.SnapshotRate, by sleeping between pieces.
func (n *Node) sendSnapshot(to raft.ServerID, address raft.ServerAddress, term uint64, r *snapshotReader) error {
	if err := n.trail.hold(to, r.snap.meta.Index); err != nil {
		return err
	}
	conn, err := n.network.dial(n.ctx, kindFiles, string(address), to)
	if err != nil {
		return err
	}
	defer conn.Close() // the receiver has said that it has all, or there is an error
	begin, next := time.Now(), time.Now()
	pace := func(bytes int) error {
		if r := n.raft(); r.State() != raft.Leader || r.CurrentTerm() != term {
			return errDeposed
		}
		if rate := n.opts.SnapshotRate; rate > 0 {
			if now := time.Now(); next.Before(now) {
				next = now
			}
			next = next.Add(time.Duration(float64(bytes) / float64(rate) * float64(time.Second)))
			time.Sleep(time.Until(next))
		}
		return n.trail.acked(to, 0)
	}
	s := fileSender{fs: n.opts.FS, dir: r.snap.store(), conn: stallingConn{conn, n.opts.stallTimeout}, pace: pace}
	err = s.send(r.list)
	if isDamage(err) {
		base.Wake(n.snapshots.wanted)
	}
	log := n.config.Logger.With("peer", to, "id", r.snap.meta.ID, "sent", s.sent, "of", r.list.size(), "took", time.Since(begin))
	if err != nil {
		log.Warn("a part of the files of a snapshot was sent; the next attempt goes on from there", "error", err)
		return fmt.Errorf("cluster: send the files of snapshot %s: %w", r.snap.meta.ID, err)
	}
	log.Info("sent the files of a snapshot")
	return nil
}

// receiveFiles owns a connection on which another member sends the files of a snapshot.
func (n *Node) receiveFiles(conn net.Conn) {
	if err := n.snapshots.receive(stallingConn{conn, n.opts.stallTimeout}); err != nil && n.usable() == nil {
		n.config.Logger.Warn("a part of the files of a snapshot has arrived, and stays for the next attempt", "error", err)
	}
}

// A fileSender sends the files of a snapshot over a connection.
type fileSender struct {
	fs   vfs.FS
	dir  string
	conn io.ReadWriter
	pace func(bytes int) error // called for each piece that was sent or compared
	sent int64                 // bytes of content
}

// send sends all that the receiver lacks, and waits until that has made it durable.
func (s *fileSender) send(list *fileList) error {
	if _, err := s.conn.Write(appendFrame(nil, kindFiles, list.encode())); err != nil {
		return err
	}
	for _, f := range list.Files {
		if err := s.sendFile(f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	var end [1]byte
	if _, err := io.ReadFull(s.conn, end[:]); err != nil || end[0] != streamEnd {
		return cmp.Or(err, errStream)
	}
	return nil
}

// sendFile sends what the receiver lacks of a file.
//
// The receiver claims a length and a hash of the bytes that it has, and the sender hashes as many
// of its own file. Equal hashes save these bytes from travelling. The hash of the whole file at the
// end checks both parts.
func (s *fileSender) sendFile(f streamFile) error {
	var claim [haveSize]byte
	if _, err := io.ReadFull(s.conn, claim[:]); err != nil {
		return fmt.Errorf("the receiver has ended the transfer, and its log says why: %w", err)
	}
	have := int64(binary.LittleEndian.Uint64(claim[:]))
	if have < 0 || have > f.Size {
		return streamError("the receiver has %d bytes of %d", uint64(have), f.Size)
	}
	file, err := s.fs.Open(filepath.Join(s.dir, f.Name))
	if err != nil {
		return err
	}
	defer file.Close() // it is only read
	sum := sha256.New()
	if err := s.copy(io.NewSectionReader(file, 0, have), sum, io.Discard); err != nil {
		return err
	}
	if have > 0 && string(sum.Sum(nil)) != string(claim[8:]) {
		have = 0
		sum.Reset()
	}
	if _, err := s.conn.Write(binary.LittleEndian.AppendUint64(nil, uint64(have))); err != nil {
		return err
	}
	if err := s.copy(io.NewSectionReader(file, have, f.Size-have), sum, s.conn); err != nil {
		return err
	}
	_, err = s.conn.Write(sum.Sum(nil))
	return err
}

// copy copies a part of a file into sum and to w. A file that has become shorter is damage, and what was added to one is
// not read.
//
// It is used for both halves of a file: what the receiver has is hashed and goes nowhere, the rest
// is hashed and sent.
func (s *fileSender) copy(part *io.SectionReader, sum hash.Hash, w io.Writer) error {
	buf := make([]byte, min(streamPiece, part.Size()))
	for at := int64(0); at < part.Size(); {
		n, err := part.Read(buf)
		if n == 0 {
			if errors.Is(err, io.EOF) {
				err = base.Corruption("", at, "content", fmt.Errorf("the file ends %d bytes early", part.Size()-at))
			}
			return err
		}
		at += int64(n)
		_, _ = sum.Write(buf[:n]) // never fails
		if w == io.Discard {
			n = 0 // of the network
		} else if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		s.sent += int64(n)
		if err := s.pace(n); err != nil {
			return err
		}
	}
	return nil
}
