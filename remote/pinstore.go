package remote

import "context"

// Pin publishes what the store has now, and keeps it from being collected until Unpin, or as long as
// o.Lasts says. With o.Step it keeps an earlier step, and publishes nothing. A store can be restored
// to a pin, cloned from it, and read at it.
func (s *Store) Pin(ctx context.Context, name string, o PinOptions) (*Pin, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if o.Step == 0 {
		if err := s.publishAll(ctx); err != nil {
			return nil, err
		}
	}
	return pin(ctx, s.bucket, s.id, name, o)
}

// Unpin removes the pin with a name, or with a label of Pins. If there is none, the error wraps
// fs.ErrNotExist.
func (s *Store) Unpin(ctx context.Context, name string) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.calls.Done()
	p, err := findPin(ctx, s.bucket, s.id, name)
	if err != nil {
		return err
	}
	return unpin(ctx, s.bucket, p.Label)
}

// Pins returns all pins of the store, those of readers too, in the order of their labels.
func (s *Store) Pins(ctx context.Context) ([]*Pin, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	return listPins(ctx, s.bucket, s.id)
}
