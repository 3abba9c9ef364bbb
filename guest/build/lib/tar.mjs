/** Reads a tar archive in memory: enough of ustar and pax for a source release. */

/**
 * @param {Uint8Array} block
 * @param {number} offset
 * @param {number} length
 * @returns {string}
 */
function text(block, offset, length) {
  const field = block.subarray(offset, offset + length);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}

/**
 * A pax header holds records of the form `<length> <key>=<value>\n`.
 *
 * @param {Uint8Array} data
 * @returns {string | undefined} the long path that the next entry has
 */
function paxPath(data) {
  return /^\d+ path=(.*)$/m.exec(new TextDecoder().decode(data))?.[1];
}

/**
 * @param {Uint8Array} archive uncompressed
 * @returns {Map<string, Uint8Array>} the regular files by their path
 */
export function untar(archive) {
  /** @type {Map<string, Uint8Array>} */
  const files = new Map();
  /** @type {string | undefined} */
  let longPath;
  for (let at = 0; at + 512 <= archive.length; ) {
    const header = archive.subarray(at, at + 512);
    const name = text(header, 0, 100);
    if (name === "") {
      break;
    }
    const size = Number.parseInt(text(header, 124, 12), 8);
    const type = String.fromCharCode(header[156] ?? 0);
    const prefix = text(header, 345, 155);
    const path = longPath ?? (prefix === "" ? name : `${prefix}/${name}`);
    at += 512;
    if (!Number.isSafeInteger(size) || at + size > archive.length) {
      throw new Error(`the archive is damaged at ${name}`);
    }
    const data = archive.subarray(at, at + size);
    longPath = type === "x" ? paxPath(data) : undefined;
    if (type === "0" || type === "\0") {
      files.set(path, data);
    } else if (!"5gx".includes(type)) {
      throw new Error(`the archive holds ${name} of unknown type ${JSON.stringify(type)}`);
    }
    at += Math.ceil(size / 512) * 512;
  }
  return files;
}
