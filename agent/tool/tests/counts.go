package tests

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

type counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

var (
	// counted is how most programs say how many tests ended in which way: "3 passed, 1 failed in 0.2s",
	// "Tests: 1 failed, 3 passed, 4 total", "test result: ok. 3 passed; 0 failed; 1 ignored".
	counted = regexp.MustCompile(`\b(\d{1,9}) (passed|passing|failed|failing|failures?|errors?|skipped|ignored|pending)\b`)
	// ran is how Python's unittest says it, with a line "FAILED (failures=1, errors=2)" after it.
	ran        = regexp.MustCompile(`(?m)^Ran (\d{1,9}) tests? in `)
	unsuccess  = regexp.MustCompile(`\b(failures|errors|skipped)=(\d{1,9})`)
	testOfGo   = regexp.MustCompile(`(?m)^\s*--- (PASS|FAIL|SKIP): `)
	filesOfOne = regexp.MustCompile(`(?i)^\s*(test )?(suites|files)\b`) // counts of files, not of tests
)

// count returns how many tests ended in which way, if the output says it in one of the usual forms, else
// nil. Where several runs follow each other, each says its own.
func count(output string) *counts {
	if m := ran.FindAllStringSubmatch(output, -1); m != nil {
		var c counts
		for _, one := range m {
			c.Passed += number(one[1])
		}
		for _, one := range unsuccess.FindAllStringSubmatch(output, -1) {
			c.add(one[1], number(one[2]))
			c.Passed -= number(one[2])
		}
		return &c
	}

	if m := testOfGo.FindAllStringSubmatch(output, -1); m != nil {
		var c counts
		for _, one := range m {
			c.add(map[string]string{"PASS": "passed", "FAIL": "failed", "SKIP": "skipped"}[one[1]], 1)
		}
		return &c
	}

	var last, sum *counts
	for line := range strings.Lines(output) {
		m := counted.FindAllStringSubmatch(line, -1)
		if m == nil || filesOfOne.MatchString(line) {
			continue
		}

		c := &counts{}
		for _, one := range m {
			c.add(one[2], number(one[1]))
		}
		last = c
		if strings.HasPrefix(line, "test result: ") { // one line for each program of tests
			if sum == nil {
				sum = &counts{}
			}
			sum.Passed += c.Passed
			sum.Failed += c.Failed
			sum.Skipped += c.Skipped
		}
	}

	if sum != nil {
		return sum
	}
	return last
}

func number(digits string) int {
	n, _ := strconv.Atoi(digits) // at most nine digits
	return n
}

// add adds tests by the word for how they ended.
func (c *counts) add(how string, n int) {
	switch how {
	case "passed", "passing":
		c.Passed += n
	case "skipped", "ignored", "pending":
		c.Skipped += n
	default:
		c.Failed += n
	}
}

// String returns a line such as "15 tests passed", "3 tests passed, 1 failed".
func (c counts) String() string {
	unit := "tests"
	if c.Passed == 1 {
		unit = "test"
	}

	text := fmt.Sprintf("%d %s passed", c.Passed, unit)
	if c.Failed > 0 {
		text += fmt.Sprintf(", %d failed", c.Failed)
	}
	if c.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", c.Skipped)
	}
	return text
}
