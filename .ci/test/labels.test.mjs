import assert from "node:assert/strict";
import { test } from "node:test";

import { labelProblems, labelsOfTable } from "../checks/labels.mjs";

const CODE =
  'const A: &str = "selfsame/1 a";\n#[cfg(test)]\nmod tests {\n    hash("selfsame/1 of a test")\n}\n';
const DOCUMENT = "# Codec\n\n## All labels\n\n| `selfsame/1 a` | a part | [codec](codec.md) |\n\n## More\n";
const read = () => "what selfsame/1\na is for";

/** @param {string} text @param {string} document */
function problems(text, document) {
  return labelProblems([{ file: "a.rs", text }], document, read);
}

test("a label is listed once, written once, and told of on its page", () => {
  assert.deepEqual(problems(CODE, DOCUMENT), []);
  assert.deepEqual(labelsOfTable(DOCUMENT), [{ label: "selfsame/1 a", page: "codec.md" }]);
});

test("what drifts is found", () => {
  const other = CODE.replace("selfsame/1 a", "selfsame/1 b");
  assert.equal(problems(other, DOCUMENT).length, 2, "one is not listed, and one is not used");
  assert.match(problems(CODE + CODE, DOCUMENT).join(), /^$/, "tests repeat labels");
  assert.match(problems(`const B: &str = "selfsame/1 a";\n${CODE}`, DOCUMENT).join(), /twice/);
  const row = "| `selfsame/1 a` | a part | |\n";
  assert.match(problems(CODE, DOCUMENT.replace("\n\n## More", `\n${row}`)).join(), /lists .* twice/);
  const silent = labelProblems([{ file: "a.rs", text: CODE }], DOCUMENT, () => "nothing");
  assert.match(silent.join(), /codec\.md does not say what/);
});
