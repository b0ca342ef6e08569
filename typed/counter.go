package typed

import (
	"errors"
	"fmt"
	"math"

	"github.com/shaledb/shale"
)

// Add adds delta to the counter at key, which begins at 0, and returns what it is then. w must be a transaction. A sum that
// an int64 can't hold is an error, and changes nothing. The counter has the bytes of Counter.
func Add(w shale.Writer, key []byte, delta int64) (int64, error) {
	tx, is := inTxn(w)
	if !is {
		return 0, fmt.Errorf("typed: counter %q: %w", key, ErrNoTxn)
	}
	data, err := tx.Get(key)
	var n int64
	if err == nil {
		n, err = Counter.Decode(data)
	} else if errors.Is(err, shale.ErrNotFound) {
		err = nil
	}
	if err == nil {
		n, err = plus(n, delta)
	}
	if err == nil {
		data, _ = Counter.Append(data[:0], n) // no number is refused
		err = tx.Put(key, data)
	}
	if err != nil {
		return 0, fmt.Errorf("typed: counter %q: %w", key, err)
	}
	return n, nil
}

// AddTo is Add for the counter that m has at key.
func AddTo[K any](w shale.Writer, m *Map[K, int64], key K, delta int64) (int64, error) {
	tx, is := inTxn(w)
	if !is {
		return 0, m.failed(key, ErrNoTxn)
	}
	n, err := m.Get(tx, key)
	if err != nil && err != shale.ErrNotFound {
		return 0, err
	}
	if n, err = plus(n, delta); err != nil {
		return 0, m.failed(key, err)
	}
	return n, m.Put(tx, key, n)
}

func plus(n, delta int64) (int64, error) {
	if delta > 0 && n > math.MaxInt64-delta || delta < 0 && n < math.MinInt64-delta {
		return 0, fmt.Errorf("%d and %d is more than a counter can hold", n, delta)
	}
	return n + delta, nil
}
