package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// An asker asks running members, by their pages.
type asker struct {
	// The fields at, secrets and wait are set by options, the same for all commands that ask.
	env     Environment
	at      []string
	secrets secrets
	wait    time.Duration
}

// groupCommands are the commands that ask a running member, and print the members of its group.
func groupCommands(env Environment) []*cobra.Command {
	var learner bool
	join := askCommand(env, "join ID HOST:PORT", "take a member into a group", `
Takes in the member ID, which runs and listens for members at HOST:PORT. A member that was started with --join enters by
itself and needs no such command. It gets a vote as soon as it has nearly all that the others have.`, 2, 2,
		func(words []string) (request, error) {
			if err := checkAddr("", words[1]); err != nil {
				return request{}, fmt.Errorf("%s is not an address: write the HOST:PORT of the member's --listen", words[1])
			}
			return request{http.MethodPost, "members", changeRequest{words[0], words[1], learner}}, nil
		})
	join.Flags().BoolVar(&learner, "learner", false, "without a vote")
	return []*cobra.Command{
		askCommand(env, "members", "list the members of a group", "", 0, 0, func([]string) (request, error) {
			return request{http.MethodGet, "members", nil}, nil
		}),
		join,
		askCommand(env, "leave ID", "remove a member from a group", `
Removes the member ID, which may be down. Its folder is of no use afterwards: to bring it back, start it with --join and
an empty folder.`, 1, 1, func(words []string) (request, error) {
			return request{http.MethodDelete, "members/" + url.PathEscape(words[0]), changeRequest{}}, nil
		}),
		askCommand(env, "transfer [ID]", "hand the lead of a group to another member",
			"Hands the lead to the member ID, or to the one that is best prepared. Clients of the old leader need do nothing.", 0, 1,
			func(words []string) (request, error) {
				return request{http.MethodPost, "leader", changeRequest{ID: strings.Join(words, "")}}, nil
			}),
	}
}

// A request is what a member's pages are asked.
type request struct {
	method, path string
	body         any
}

// askCommand returns a command that makes a request of its words.
func askCommand(env Environment, usage, short, long string, least, most int, of func(words []string) (request, error)) *cobra.Command {
	a := &asker{env: env}
	cmd := newCommand(usage, short, long, least, most, func(ctx context.Context, words []string) error {
		r, err := of(words)
		if err != nil {
			return err
		}
		list, err := a.ask(ctx, r)
		if err != nil {
			return err
		}
		return a.print(list)
	})
	f := cmd.Flags()
	f.StringSliceVar(&a.at, "at", []string{defaultHTTP}, "`HOST:PORT` of a member's --http; several with commas, of which the one that leads is used")
	f.DurationVar(&a.wait, "wait", time.Minute, "how long to wait for an answer")
	a.secrets.flags(cmd, false)
	return cmd
}

// print prints the members.
//
// A member that does not answer has a line too, with the reason instead of figures. The column
// "behind" counts entries of the log that the member's state lacks: 0 is normal in a group that is
// not written to.
func (a *asker) print(list []memberJSON) error {
	w := tabwriter.NewWriter(a.env.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "member\taddress\tvote\t\tbehind\tdisk free\tversion\tbackup")
	for _, m := range list {
		vote, lead := "yes", ""
		if !m.Voter {
			vote = "no"
		}
		if m.Leader {
			lead = "leads"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t", m.ID, m.Address, vote, lead)
		if m.Why != "" {
			fmt.Fprintf(w, "unreachable: %s\n", m.Why)
			continue
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.Behind, m.About["disk free"], m.About["version"], m.About["backup"])
	}
	return w.Flush()
}

// electing is how long ask waits until one of several members leads: the one that did may have just stopped.
const electing = 10 * time.Second

// ask sends a request to one of the members. If that can't be reached, or does not lead and the request needs the
// leader, it asks the others.
//
// With several members it asks again for some seconds while none of them leads, as during an
// election. An error that another member can't mend, such as a wrong password, ends it at once.
func (a *asker) ask(ctx context.Context, r request) ([]memberJSON, error) {
	if err := a.secrets.read(a.env.Getenv); err != nil {
		return nil, err
	}
	t, err := a.secrets.caller()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.wait)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: t}}
	defer client.CloseIdleConnections()
	scheme := "http"
	if t != nil {
		scheme = "https"
	}
	for begin := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		var errs []error
		var refused *refusal
		for _, at := range a.at {
			if err := checkAddr("at ", at); err != nil {
				return nil, err
			}
			list, err := a.askOne(ctx, client, scheme+"://"+at+"/"+r.path, r)
			if err == nil {
				return list, nil
			}
			err = fmt.Errorf("%s: %w", at, err)
			if errors.As(err, &refused) && !refused.elsewhere {
				return nil, err // the others would only say that they do not lead
			}
			errs = append(errs, err)
		}
		// With one member there is nobody else to ask. If none of several could be reached, waiting
		// does not help.
		if len(a.at) == 1 || refused == nil || ctx.Err() != nil || time.Since(begin) > electing {
			return nil, errors.Join(errs...)
		}
	}
}

// askOne sends the request to one member. Its errors say what to do next where that is known: give
// a password, give a certificate, or ask another member.
func (a *asker) askOne(ctx context.Context, client *http.Client, target string, of request) ([]memberJSON, error) {
	data, err := json.Marshal(of.body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, of.method, target, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if a.secrets.password != "" {
		r.SetBasicAuth("default", a.secrets.password)
	}
	answer, err := client.Do(r)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err // without the address, which the caller names
		}
		return nil, err
	}
	defer answer.Body.Close()
	// The list of a group is small. The limit is for addresses at which something else answers.
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var list []memberJSON
	var refused errorJSON
	switch {
	case answer.StatusCode == http.StatusOK:
		return list, json.Unmarshal(text, &list)
	case answer.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("the member has a password: give --password-file, or set %s", passwordVariable)
	case answer.StatusCode == http.StatusBadRequest && strings.Contains(string(text), "HTTPS server"):
		return nil, errors.New("the member talks TLS: give --tls-ca")
	case json.Unmarshal(text, &refused) != nil || refused.Error == "":
		return nil, errors.New(strings.TrimSpace(string(text)))
	case refused.Leader != "":
		refused.Error += "; ask that one with --at"
	}
	return nil, &refusal{refused.Error, answer.StatusCode == http.StatusMisdirectedRequest}
}

// A refusal is the error of a member that was asked.
type refusal struct {
	text      string
	elsewhere bool // the member does not lead
}

// Error returns the text of the member that was asked.
func (r *refusal) Error() string { return r.text }
