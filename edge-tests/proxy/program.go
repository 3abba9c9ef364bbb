// A program that knows nothing of a mesh: serves and calls HTTP with net/http, through whatever proxy its environment
// names.
//
//	program serve
//	program call URL CALLER
//
// serve prints its port; call tries everything at a service like its own and prints one line for each thing that works.
package main

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	large    = 32 * 1024 * 1024
	pieces   = 5
	requests = 200
	workers  = 16
	patience = 60 * time.Second
)

// steps counts what a client says that it has received, so that a server can wait for it.
type steps struct {
	sync.Mutex
	taken   map[string]int
	changed chan struct{}
}

func (s *steps) take(key string) {
	s.Lock()
	defer s.Unlock()
	s.taken[key]++
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *steps) wait(key string, count int) {
	late := time.After(patience)
	for {
		s.Lock()
		done, changed := s.taken[key] >= count, s.changed
		s.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-late:
			panic(http.ErrAbortHandler)
		}
	}
}

func counting() []byte {
	body := make([]byte, large)
	for index := range body {
		body[index] = byte(index)
	}
	return body
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func handler() http.Handler {
	waiting := &steps{taken: map[string]int{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("/hello", func(w http.ResponseWriter, r *http.Request) {
		told := map[string]string{"language": "go", "caller": r.Header.Get("selfsame-caller")}
		_ = json.NewEncoder(w).Encode(told)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(counting())
	})
	mux.HandleFunc("/digest", func(w http.ResponseWriter, r *http.Request) {
		hash, piece, key := sha256.New(), make([]byte, 65536), r.URL.Query().Get("key")
		for {
			length, err := r.Body.Read(piece)
			hash.Write(piece[:length])
			if length > 0 && key != "" {
				waiting.take(key)
			}
			if err != nil {
				break
			}
		}
		fmt.Fprint(w, hex.EncodeToString(hash.Sum(nil)))
	})
	// One piece after the other, each once the client has taken the one before.
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for number := 0; number < pieces; number++ {
			waiting.wait(r.URL.Query().Get("key"), number)
			fmt.Fprintf(w, "piece %d\n", number)
			w.(http.Flusher).Flush()
		}
	})
	mux.HandleFunc("/take", func(_ http.ResponseWriter, r *http.Request) {
		waiting.take(r.URL.Query().Get("key"))
	})
	mux.HandleFunc("/wait", func(_ http.ResponseWriter, r *http.Request) {
		count, _ := strconv.Atoi(r.URL.Query().Get("count"))
		waiting.wait(r.URL.Query().Get("key"), count)
	})
	mux.HandleFunc("/never", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	return mux
}

func serve() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	go func() {
		// It ends with whoever started it.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(listener, handler())
}

type client struct {
	http   http.Client
	url    string
	caller string
}

func (c *client) do(method, target string, body io.Reader, fields map[string]string) (*http.Response, error) {
	request, err := http.NewRequest(method, target, body)
	if err != nil {
		return nil, err
	}
	for name, value := range fields {
		request.Header.Set(name, value)
	}
	return c.http.Do(request)
}

func (c *client) read(method, path string, body io.Reader) ([]byte, error) {
	response, err := c.do(method, c.url+path, body, nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

type problem struct {
	Status  int
	Code    string
	Detail  string
	Service string
	Tried   []struct{ Peer, Code string }
}

func (c *client) refusal(target string, fields map[string]string) (problem, error) {
	var told problem
	response, err := c.do(http.MethodGet, target, nil, fields)
	if err != nil {
		return told, err
	}
	defer response.Body.Close()
	if response.Header.Get("content-type") != "application/problem+json" || response.Header.Get("proxy-status") == "" {
		return told, fmt.Errorf("%s: %v", response.Status, response.Header)
	}
	err = json.NewDecoder(response.Body).Decode(&told)
	if err == nil && told.Status != response.StatusCode {
		err = fmt.Errorf("%s says %d", response.Status, told.Status)
	}
	return told, err
}

func (c *client) plain() error {
	body, err := c.read(http.MethodGet, "/hello", nil)
	if err != nil {
		return err
	}
	var told struct{ Language, Caller string }
	if err := json.Unmarshal(body, &told); err != nil {
		return err
	}
	return expect(told.Caller == c.caller && told.Language != "", told)
}

func (c *client) notFound() error {
	response, err := c.do(http.MethodGet, c.url+"/nothing", nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return expect(response.StatusCode == http.StatusNotFound && response.Header.Get("proxy-status") == "", response.Status)
}

func (c *client) largeAnswer() error {
	body, err := c.read(http.MethodGet, "/large", nil)
	if err != nil {
		return err
	}
	return expect(bytes.Equal(body, counting()), len(body))
}

func (c *client) largeRequest() error {
	body := make([]byte, large)
	_, _ = rand.Read(body)
	answer, err := c.read(http.MethodPost, "/digest", bytes.NewReader(body))
	if err != nil {
		return err
	}
	return expect(string(answer) == digest(body), string(answer))
}

func (c *client) streamingAnswer() error {
	key := random()
	response, err := c.do(http.MethodGet, c.url+"/stream?key="+key, nil, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for number := 0; number < pieces; number++ {
		line, err := lines.ReadString('\n')
		if err != nil || line != fmt.Sprintf("piece %d\n", number) {
			return fmt.Errorf("%q %w", line, err)
		}
		if _, err := c.read(http.MethodGet, "/take?key="+key, nil); err != nil {
			return err
		}
	}
	rest, err := io.ReadAll(lines)
	return errors.Join(err, expect(len(rest) == 0, string(rest)))
}

func (c *client) streamingRequest() error {
	key, sent := random(), sha256.New()
	reader, writer := io.Pipe()
	go func() {
		for number := 0; number < pieces; number++ {
			piece := []byte(fmt.Sprintf("piece %d of %s", number, key))
			sent.Write(piece)
			_, _ = writer.Write(piece)
			path := fmt.Sprintf("/wait?key=%s&count=%d", key, number+1)
			if _, err := c.read(http.MethodGet, path, nil); err != nil {
				_ = writer.CloseWithError(err)
				return
			}
		}
		_ = writer.Close()
	}()
	answer, err := c.read(http.MethodPost, "/digest?key="+key, reader)
	if err != nil {
		return err
	}
	return expect(string(answer) == hex.EncodeToString(sent.Sum(nil)), string(answer))
}

func (c *client) concurrent() error {
	numbers, results := make(chan int), make(chan error)
	for worker := 0; worker < workers; worker++ {
		go func() {
			for number := range numbers {
				body := bytes.Repeat([]byte(strconv.Itoa(number)), 1000)
				answer, err := c.read(http.MethodPost, "/digest", bytes.NewReader(body))
				results <- errors.Join(err, expect(string(answer) == digest(body), number))
			}
		}()
	}
	go func() {
		for number := 0; number < requests; number++ {
			numbers <- number
		}
		close(numbers)
	}()
	var all error
	for answer := 0; answer < requests; answer++ {
		all = errors.Join(all, <-results)
	}
	return all
}

func (c *client) tunnel() error {
	service, _ := url.Parse(c.url)
	proxy, _ := url.Parse(os.Getenv("http_proxy"))
	connection, err := net.Dial("tcp", proxy.Host)
	if err != nil {
		return err
	}
	defer connection.Close()
	fmt.Fprintf(connection, "CONNECT %s:80 HTTP/1.1\r\nHost: %[1]s\r\n\r\n", service.Host)
	lines := bufio.NewReader(connection)
	opened, err := http.ReadResponse(lines, &http.Request{Method: http.MethodConnect})
	if err != nil || opened.StatusCode != http.StatusOK {
		return fmt.Errorf("no tunnel: %w", err)
	}
	fmt.Fprintf(connection, "GET /hello HTTP/1.1\r\nHost: %s\r\n\r\n", service.Host)
	response, err := http.ReadResponse(lines, nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return errors.Join(err, expect(strings.Contains(string(body), c.caller), string(body)))
}

func (c *client) nobody() error {
	told, err := c.refusal("http://nobody.mesh/", nil)
	return errors.Join(err, expect(told.Status == 503 && told.Code == "NoProvider" && told.Service == "nobody", told))
}

func (c *client) deadline() error {
	told, err := c.refusal(c.url+"/never", map[string]string{"selfsame-timeout": "500ms"})
	return errors.Join(err, expect(told.Status == 504 && told.Code == "Deadline" && len(told.Tried) == 1, told))
}

func (c *client) elsewhere() error {
	told, err := c.refusal("http://example.com/", nil)
	return errors.Join(err, expect(told.Status == 403 && strings.Contains(told.Detail, "http://NAME.mesh"), told))
}

func random() string {
	key := make([]byte, 8)
	_, _ = rand.Read(key)
	return hex.EncodeToString(key)
}

func expect(holds bool, seen any) error {
	if holds {
		return nil
	}
	return fmt.Errorf("%v", seen)
}

func call(target, caller string) error {
	c := &client{http: http.Client{Timeout: patience}, url: target, caller: caller}
	checks := []struct {
		name string
		run  func() error
	}{
		{"plain", c.plain}, {"not_found", c.notFound}, {"large_answer", c.largeAnswer}, {"large_request", c.largeRequest},
		{"streaming_answer", c.streamingAnswer}, {"streaming_request", c.streamingRequest}, {"concurrent", c.concurrent},
		{"tunnel", c.tunnel}, {"nobody", c.nobody}, {"deadline", c.deadline}, {"elsewhere", c.elsewhere},
	}
	for _, check := range checks {
		if err := check.run(); err != nil {
			return fmt.Errorf("%s: %w", check.name, err)
		}
		fmt.Println("ok", check.name)
	}
	return nil
}

func main() {
	var err error
	if os.Args[1] == "serve" {
		err = serve()
	} else {
		err = call(os.Args[2], os.Args[3])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
