package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/shaledb/shale"
	"github.com/shaledb/shale/internal/base"
	"github.com/shaledb/shale/internal/outfile"
)

func flush(ctx context.Context, s *session, _ arguments) (status, error) {
	begin := time.Now()
	if err := s.db.Flush(ctx); err != nil {
		return failed, err
	}
	s.say("flushed in %v", since(begin))
	return found, nil
}

func compact(ctx context.Context, s *session, a arguments) (status, error) {
	begin, before := time.Now(), tableBytes(s.db)
	if err := s.db.Compact(ctx, a.bounds()); err != nil {
		return failed, err
	}
	s.say("%s of tables became %s in %v", base.FormatBytes(before), base.FormatBytes(tableBytes(s.db)), since(begin))
	return found, nil
}

func makeCheckpoint(_ context.Context, s *session, a arguments) (status, error) {
	dir := a.words[0].text
	if dir == "" {
		return failed, errors.New("name a folder for the checkpoint")
	}
	if err := outfile.Folder(dir); err != nil {
		return failed, err
	}
	err := s.db.Checkpoint(dir)
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s is there already; name a new folder", quote(dir))
	}
	return found, err
}

func reopen(_ context.Context, s *session, _ arguments) (status, error) {
	if err := s.close(); err != nil {
		return failed, err
	}
	if err := s.open(&command{name: "reopen", access: reads}); err != nil {
		return failed, err
	}
	if s.writable {
		s.say("open for writing")
	}
	return found, nil
}

func quit(context.Context, *session, arguments) (status, error) { return found, errQuit }

func tableBytes(db *shale.DB) (n int64) {
	for _, l := range db.Metrics().Levels {
		n += l.Bytes
	}
	return n
}
