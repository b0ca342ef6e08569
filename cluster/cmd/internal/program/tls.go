package program

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/shaledb/shale/cluster/cmd/internal/server"
)

// A security has the configurations of TLS that a member uses; nil fields: without TLS.
//
// Both configurations take the certificate from pair at each handshake, so a renewed one needs no
// restart.
type security struct {
	clients *tls.Config // for clients of Redis, and for pages
	members *tls.Config // for other members, in both directions: each must show a certificate
	pair    *atomic.Pointer[tls.Certificate]
}

// security reads the certificates.
//
// Members always show certificates to each other: whoever has one that the authority has signed can
// write to the log. That is why clients that show certificates need an authority of their own
// (--tls-members-ca).
func (c *config) security() (security, error) {
	s := &c.secrets
	if s.cert == "" {
		if s.ca != "" {
			return security{}, errors.New("--tls-ca needs --tls-cert and --tls-key: give all three, or none")
		}
		return security{}, nil
	}
	if s.ca == "" {
		return security{}, errors.New("--tls-cert needs --tls-ca, by which members know each other")
	}
	p, err := s.readPair()
	if err != nil {
		return security{}, err
	}
	authority, err := authorityOf("--tls-ca", s.ca)
	if err != nil {
		return security{}, err
	}
	pair := new(atomic.Pointer[tls.Certificate])
	pair.Store(p)
	base := &tls.Config{
		MinVersion:           tls.VersionTLS12,
		GetCertificate:       func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Load(), nil },
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Load(), nil },
		RootCAs:              authority, ClientCAs: authority,
	}
	// Members are checked in both directions, as servers and as clients. Clients of Redis show a
	// certificate only if --tls-clients asks for it, since few of them have one.
	clients, members := base, base.Clone()
	members.ClientAuth = tls.RequireAndVerifyClientCert
	if c.tlsClients {
		clients.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if s.membersCA != "" {
		if members.RootCAs, err = authorityOf("--tls-members-ca", s.membersCA); err != nil {
			return security{}, err
		}
		members.ClientCAs = members.RootCAs
	}
	return security{clients, members, pair}, nil
}

// readPair reads the certificate and its key.
func (s *secrets) readPair() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(s.cert, s.key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", s.cert, s.key, err)
	}
	return &pair, nil
}

// authorityOf reads the certificates of an authority.
func authorityOf(option, file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", option, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s %s: there is no certificate in it; it has to be in PEM form", option, file)
	}
	return pool, nil
}

// rereadEvery is how often passwords and certificates are read again.
const rereadEvery = time.Second

// reread reads passwords and certificates again and again until ctx is done, so that new ones need no restart. What
// can't be read, such as a certificate without its key yet, does not count.
//
// A certificate and its key are two files, and are never replaced at the same moment. So a pair
// that does not fit is no error for long, and the one before stays.
func (m *member) reread(ctx context.Context) {
	have := m.config.secrets
	for said := ""; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rereadEvery):
		}
		s := have
		err := s.read(func(string) string { return s.password })
		if err == nil && (s.password != have.password || s.readPassword != have.readPassword) {
			m.server.SetPasswords(s.password, s.readPassword)
		}
		if err == nil && s.admin != have.admin {
			m.admin.Store(server.NewPassword(s.admin))
		}
		if pair, perr := s.readPair(); s.cert != "" && perr == nil {
			m.tls.pair.Store(pair)
		} else if s.cert != "" {
			err = errors.Join(err, perr)
		}
		if err == nil {
			have, said = s, ""
		} else if err.Error() != said {
			said = err.Error()
			m.logf("warning: the passwords and certificates from before stay: %s", said)
		}
	}
}

// caller returns the configuration for calls to a member's pages; nil: without TLS.
//
// Without --tls-ca the command talks plain HTTP. It never talks TLS without knowing the authority:
// a password that goes to somebody who only claims to be the member would be lost.
func (s *secrets) caller() (*tls.Config, error) {
	if s.ca == "" {
		if s.cert != "" {
			return nil, errors.New("--tls-cert needs --tls-ca, by which the member is known")
		}
		return nil, nil
	}
	authority, err := authorityOf("--tls-ca", s.ca)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authority}
	if s.cert != "" {
		pair, err := s.readPair()
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{*pair}
	}
	return c, nil
}
