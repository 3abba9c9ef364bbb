/** Puts a function of ours in the place of one in somebody else's source. */

/**
 * @typedef {object} Replacement
 * @property {string} file the source, by its path in the release
 * @property {string} from how what is replaced begins
 * @property {string} until what stands behind it
 * @property {string} by the name of our file
 */

/**
 * @param {string} text
 * @param {Replacement} replacement
 * @param {string} ours what our file holds
 * @returns {string} the text with ours from the one mark to the other
 */
export function replace(text, { file, from, until }, ours) {
  const [before, rest] = splitOnce(file, text, from);
  const [, after] = splitOnce(file, rest, until);
  return before + ours + until + after;
}

/**
 * @param {string} file
 * @param {string} text
 * @param {string} mark
 * @returns {[string, string]} what stands before and after the only place that reads like the mark
 */
function splitOnce(file, text, mark) {
  const [before, after, ...more] = text.split(mark);
  if (before === undefined || after === undefined || more.length > 0) {
    throw new Error(`${file} must hold this exactly once: ${mark}`);
  }
  return [before, after];
}
