package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/cmd/shale/internal/output"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
)

func flush(ctx context.Context, s *Session, _ Arguments) (Status, error) {
	begin := time.Now()
	if err := s.DB.Flush(ctx); err != nil {
		return Failed, err
	}
	s.Say("flushed in %v", output.Since(begin))
	return Found, nil
}

func compact(ctx context.Context, s *Session, a Arguments) (Status, error) {
	begin, before := time.Now(), tableBytes(s.DB)
	if err := s.DB.Compact(ctx, a.bounds()); err != nil {
		return Failed, err
	}
	s.Say("%s of tables became %s in %v", base.FormatBytes(before), base.FormatBytes(tableBytes(s.DB)), output.Since(begin))
	return Found, nil
}

func makeCheckpoint(_ context.Context, s *Session, a Arguments) (Status, error) {
	dir := a.Words[0].Text
	if dir == "" {
		return Failed, errors.New("name a folder for the checkpoint")
	}
	if err := outfile.Folder(dir); err != nil {
		return Failed, err
	}
	err := s.DB.Checkpoint(dir)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s is there already; name a new folder", output.Quote(dir))
	}
	return Found, err
}

func reopen(_ context.Context, s *Session, _ Arguments) (Status, error) {
	if err := s.Close(); err != nil {
		return Failed, err
	}
	if err := s.Open(&Command{Name: "reopen", Access: Reads}); err != nil {
		return Failed, err
	}
	if s.writable {
		s.Say("open for writing")
	}
	return Found, nil
}

func Quit(context.Context, *Session, Arguments) (Status, error) { return Found, ErrQuit }

func tableBytes(db *shale.DB) (n int64) {
	for _, l := range db.Metrics().Levels {
		n += l.Bytes
	}
	return n
}
