package xorfilter

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/shaledb/shale/bloom"
)

// writeTo writes a header and what follows it.
func writeTo(w io.Writer, parts ...[]byte) (n int64, err error) {
	for _, b := range parts {
		m, err := w.Write(b)
		if n += int64(m); err != nil {
			return n, fmt.Errorf("xorfilter: write filter: %w", err)
		}
	}
	return n, nil
}

// appendText returns b in base64, or err.
func appendText(b []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b), nil
}

// readError makes the error of ReadFrom from the error err of the reader, which
// came after n bytes.
func readError(err error, n int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		if n > 0 {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("xorfilter: read filter: %w: it ends after %d bytes: %w", bloom.ErrDamaged, n, err)
	}
	return fmt.Errorf("xorfilter: read filter: %w", err)
}

func damage(format string, args ...any) error {
	return fmt.Errorf("xorfilter: read filter: %w: %s", bloom.ErrDamaged, fmt.Sprintf(format, args...))
}

func errEmpty() error {
	return fmt.Errorf("xorfilter: write filter: %w: no fingerprints, build the filter or read one", ErrParameters)
}
