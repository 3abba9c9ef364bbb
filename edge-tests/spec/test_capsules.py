"""This peer agrees with every test vector of capsules."""

import unittest

from peer import capsule_sets as sets
from peer.capsule import (
    Capsule,
    Header,
    Writers,
    encode_header,
    key_pair,
    sign,
    sign_metadata,
    verify,
)
from peer.capsule_bodies import (
    EpochChange,
    ReaderKeys,
    RecordKey,
    TreeBody,
    check_body,
    check_part,
    climb,
    encode_tree,
    epoch_key,
    open_body,
    path_of,
    recall,
)
from peer.capsule_files import Export, Proof, ProofFile, write_export
from peer.codec import Malformed, Reader, Refused, u
from test_vectors import Vectors, h, load

RECORD = "selfsame/1 capsule record"


def hexes(texts):
    return [h(text) for text in texts]


class Metadata(Vectors):
    def setUp(self):
        self.vectors = load("capsule-metadata.json")

    def test_keys(self):
        for case in self.vectors["keys"]:
            _, public = key_pair(h(case["seed"]))
            self.assertEqual(public, h(case["public_key"]))

    def test_capsules_and_their_names(self):
        for case in self.vectors["capsules"]:
            capsule = Capsule(h(case["metadata"]))
            self.assertEqual(capsule.name, h(case["name"]))
            self.assertEqual((capsule.owner, capsule.writers), (h(case["owner"]), hexes(case["writers"])))
            fields = case["hash"], case["readers"], case["created_ms"], h(case["salt"])
            writers = hexes(case["writers"])
            made = sign_metadata(h(self.vectors["owner_seed"]), *fields, writers, case["description"])
            self.assertEqual(made, h(case["metadata"]))

    def test_refused(self):
        for case in self.vectors["refused"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: Capsule(h(case["metadata"])))


class Records(Vectors):
    def setUp(self):
        self.vectors = load("capsule-records.json")
        self.capsule = Capsule(h(self.vectors["metadata"]))

    def test_headers_and_names(self):
        of_sha256 = Capsule(h(self.vectors["metadata_sha256"]))
        key, public = key_pair(h(self.vectors["writer_seed"]))
        for case in self.vectors["records"]:
            with self.subTest(case["what"]):
                numbers = [case[name] for name in ("kind", "writer", "epoch", "sequence", "body_length")]
                made = encode_header(*numbers, h(case["body_hash"]), hexes(case["backpointers"]))
                self.assertEqual(made, h(case["header"]))
                header = Header.whole(made)
                read = [header.kind, header.writer, header.epoch, header.sequence, header.body_length]
                self.assertEqual(read, numbers)
                self.assertEqual(self.capsule.hasher.name(made), h(case["name"]))
                self.assertEqual(of_sha256.hasher.name(made), h(case["name_sha256"]))
                self.assertEqual(sign(key, RECORD, h(case["name"])), h(case["signature"]))
                self.assertTrue(verify(public, RECORD, h(case["name"]), h(case["signature"])))

    def test_refused_headers(self):
        for case in self.vectors["refused_headers"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: Header.whole(h(case["header"])))

    def test_refused_signatures(self):
        for case in self.vectors["refused_signatures"]:
            header = Header.whole(h(case["header"]))
            name = self.capsule.hasher.name(header.encoded)
            check = lambda: Writers(self.capsule).check(header, name, h(case["signature"]))
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], check)

    def proof(self, case):
        return Proof(self.capsule.hasher, Writers(self.capsule), h(case["record"]), h(case["proof"]))

    def test_proofs_and_authorship(self):
        for case in self.vectors["proofs"]["accepted"]:
            with self.subTest(case["what"]):
                proof = self.proof(case)
                self.assertEqual(proof.signer, case["signer"])
                is_signed = proof.is_signed_by(proof.last)
                self.assertEqual(is_signed, case["authorship"] == "signed by")

    def test_refused_proofs(self):
        for case in self.vectors["proofs"]["refused"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: self.proof(case))


class Bodies(Vectors):
    def setUp(self):
        self.vectors = load("capsule-bodies.json")

    def place(self, case):
        return h(case["capsule"]), case["epoch"], case["writer"], case["sequence"]

    def test_sealed_bodies(self):
        for case in self.vectors["sealed"]:
            key, place, body = h(case["epoch_key"]), self.place(case), h(case["body"])
            self.assertEqual(epoch_key(h(self.vectors["owner_seed"]), *place[:2]), key)
            self.assertEqual(RecordKey(key, h(case["salt"]), *place).seal(h(case["content"])), body)
            self.assertEqual(open_body(key, body, *place), h(case["content"]))

    def test_refused_seals(self):
        for case in self.vectors["refused_sealed"]:
            act = lambda: open_body(h(case["epoch_key"]), h(case["body"]), *self.place(case))
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], act)

    def test_refused_bodies(self):
        capsule = Capsule(h(self.vectors["metadata"]))
        for case in self.vectors["refused_bodies"]:
            header = Header.whole(h(case["header"]))
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: check_body(capsule, header, h(case["body"])))


class Trees(Vectors):
    def setUp(self):
        self.vectors = load("capsule-trees.json")

    def test_bodies_and_their_hashes(self):
        for case in self.vectors["trees"]:
            capsule, header = Capsule(h(case["metadata"])), Header.whole(h(case["header"]))
            stored = hexes(case["stored"])
            contents = [bytes([at]) * at for at in range(case["count"])]
            preamble = b""
            if case["sealed"]:
                key = epoch_key(h(self.vectors["owner_seed"]), capsule.name, 0)
                sealing = RecordKey(key, h(case["salt"]), capsule.name, 0, header.writer, header.sequence)
                preamble = sealing.preamble
                parts = [sealing.seal_part(at, content) for at, content in enumerate(contents)]
                again = recall(key, h(case["body"])[4:52], capsule.name, 0, header.writer, header.sequence)
                self.assertEqual([again.open_part(at, part) for at, part in enumerate(parts)], contents)
            else:
                parts = contents
            self.assertEqual(parts, stored)
            self.assertEqual(encode_tree(preamble, parts), h(case["body"]))
            check_body(capsule, header, h(case["body"]))

    def test_paths(self):
        for case in self.vectors["trees"]:
            capsule, header = Capsule(h(case["metadata"])), Header.whole(h(case["header"]))
            tree = TreeBody(h(case["body"]), case["sealed"])
            levels = tree.levels(capsule.hasher)
            for given in case["paths"]:
                index, path = given["index"], hexes(given["path"])
                self.assertEqual(path_of(levels, index, given["levels"]), path)
                place = case["count"], index, levels[0][index], path
                if given["levels"] == 255:
                    proven = case["count"], tree.preamble, index, levels[0][index], path
                    check_part(capsule.hasher, header.body_hash, *proven)
                else:
                    height = min(given["levels"], len(levels) - 1)
                    node = levels[height][index // 4**height]
                    self.assertEqual(climb(capsule.hasher, *place, given["levels"]), node)

    def test_refused_paths(self):
        vectors = self.vectors["refused_paths"]
        capsule = Capsule(h(vectors["metadata"]))
        for case in vectors["cases"]:
            proven = case["count"], h(case["preamble"]), case["index"], h(case["leaf"]), hexes(case["path"])
            check = lambda: check_part(capsule.hasher, h(vectors["body_hash"]), *proven)
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], check)

    def test_refused_bodies(self):
        vectors = self.vectors["refused_bodies"]
        capsule, header = Capsule(h(vectors["metadata"])), Header.whole(h(vectors["header"]))
        for case in vectors["cases"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: check_body(capsule, header, h(case["body"])))


class Epochs(Vectors):
    def setUp(self):
        self.vectors = load("capsule-epochs.json")
        self.capsule = Capsule(h(self.vectors["metadata"]))

    def test_keys_of_epochs_and_of_readers(self):
        for case in self.vectors["epoch_keys"]:
            key = epoch_key(h(self.vectors["owner_seed"]), h(case["capsule"]), case["epoch"])
            self.assertEqual(key, h(case["key"]))
        for case in self.vectors["readers"]:
            reader = ReaderKeys(h(case["seed"]))
            self.assertEqual((reader.public, reader.id), (h(case["public_key"]), h(case["reader"])))

    def open(self, case):
        reader = ReaderKeys(h(case["reader_seed"]))
        (grant,) = EpochChange(h(case["body"])).grants
        return reader.id == grant[0], reader.open(h(case["capsule"]), case["epoch"], grant)

    def test_grants(self):
        for case in self.vectors["grants"]:
            self.assertEqual(self.open(case), (True, h(case["key"])))

    def test_refused_grants(self):
        for case in self.vectors["refused_grants"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: self.open(case))

    def test_refused_bodies(self):
        for case in self.vectors["refused_bodies"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: EpochChange(h(case["body"])))

    def apply(self, writers, case):
        header = Header.whole(h(case["header"]))
        check_body(self.capsule, header, h(case["body"]))
        name = self.capsule.hasher.name(header.encoded)
        writers.apply(header, name, EpochChange(h(case["body"])), h(case["signature"]))

    def in_force(self):
        writers = Writers(self.capsule)
        for case in self.vectors["records"]["in_force"]:
            self.apply(writers, case)
        return writers

    def test_epoch_records_that_do_not_follow_are_refused(self):
        for case in self.vectors["records"]["then_refused"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: self.apply(self.in_force(), case))

    def test_whose_signatures_count(self):
        for case in self.vectors["records"]["then_signatures"]:
            header = Header.whole(h(case["header"]))
            name = self.capsule.hasher.name(header.encoded)
            check = lambda: self.in_force().check(header, name, h(case["signature"]))
            with self.subTest(case["what"]):
                if case["code"] is None:
                    check()
                else:
                    self.assert_refused(case["code"], check)


class Statements(Vectors):
    def setUp(self):
        self.vectors = load("capsule-statements.json")
        self.capsule, self.time = h(self.vectors["capsule"]), self.vectors["time_ms"]
        self.key, self.server = key_pair(h(self.vectors["server_seed"]))

    def check(self, case):
        return sets.check_acknowledgement(h(case["acknowledgement"]), self.capsule, hexes(case["stored"]))

    def test_acknowledgements(self):
        for together in self.vectors["acknowledgements"]:
            leaves = [sets.stored_leaf(self.capsule, hexes(case["stored"])) for case in together]
            made = sets.acknowledge(self.key, self.server, self.time, leaves)
            self.assertEqual(made, [h(case["acknowledgement"]) for case in together])
            for case in together:
                self.assertEqual(self.check(case), (self.time, self.server))

    def test_refused_acknowledgements(self):
        for case in self.vectors["refused_acknowledgements"]:
            with self.subTest(case["what"]), self.assertRaises(Refused):
                self.check(case)

    def test_answers_about_heads(self):
        for case in self.vectors["freshness"]["accepted"]:
            asked = h(case["nonce"]), h(case["writer"])
            said = h(case["newest"]), hexes(case["heads"])
            made = sets.answer_fresh(self.key, self.server, self.capsule, *asked, self.time, *said)
            self.assertEqual(made, h(case["answer"]))
            self.assertEqual(sets.check_fresh(made, self.capsule, *asked), said)
        for case in self.vectors["freshness"]["refused"]:
            asked = h(case["nonce"]), h(case["writer"])
            with self.subTest(case["what"]), self.assertRaises(Refused):
                sets.check_fresh(h(case["answer"]), self.capsule, *asked)

    def test_introductions(self):
        case = self.vectors["introductions"]
        key, public = key_pair(h(self.vectors["writer_seed"]))
        place = h(case["server"]), self.capsule, h(case["session"])
        made = sets.introduce(key, 1, *place, self.time)
        self.assertEqual(made, h(case["introduction"]))
        self.assertEqual(sets.check_introduction(made, public, *place, self.time), 1)
        for wrong in case["refused"]:
            place = h(wrong["server"]), self.capsule, h(wrong["session"])
            data = h(wrong["introduction"])
            check = lambda: sets.check_introduction(data, public, *place, wrong["now_ms"])
            with self.subTest(wrong["what"]):
                self.assert_refused(wrong["code"], check)


class Sets(Vectors):
    def setUp(self):
        self.vectors = load("capsule-sets.json")
        self.capsule, self.salt = h(self.vectors["capsule"]), h(self.vectors["salt"])

    def short_id(self, element):
        return sets.short_id(self.capsule, self.salt, element)

    def test_ids(self):
        for case in self.vectors["ids"]:
            self.assertEqual(u(self.short_id(h(case["element"])), 8), h(case["id"]))

    def test_sketches_and_what_differs(self):
        for case in self.vectors["sketches"]:
            read = []
            for side in case["sets"]:
                elements, symbols = hexes(side["elements"]), h(side["symbols"])
                ids = [self.short_id(element) for element in elements]
                self.assertEqual(sets.Sketch.of(ids, 16).encode(), symbols)
                read.append(sets.Sketch.read(Reader(symbols), 16, len(elements)))
            difference = read[0].subtract(read[1])
            self.assertEqual(difference.estimate(), case["estimate"])
            differing = difference.decode()
            if case["differing"] is None:
                self.assertIsNone(differing)
            else:
                given = [[u(id, 8) for id in sorted(side)] for side in differing]
                self.assertEqual(given, [hexes(case["differing"][side]) for side in ("ours", "theirs")])

    def test_refused_sketches(self):
        for case in self.vectors["refused_sketches"]:
            read = lambda: sets.Sketch.read(Reader(h(case["bytes"])), case["symbols"], case["elements"])
            with self.subTest(case["what"]), self.assertRaises(Malformed):
                read()

    def test_what_a_replica_answers_to_compare(self):
        case = self.vectors["compare"]
        elements = hexes(case["elements"])
        whole = u(0, 8) + u(0, 8) + u((1 << 64) - 1, 8)
        operation = u(11, 1) + self.salt + whole + u(16, 4) + bytes(32)
        self.assertEqual(u(1, 1) + self.capsule + bytes(16) + u(0, 4) + operation, h(case["request"]))
        sketch = sets.Sketch.of([self.short_id(element) for element in elements], 16).encode()
        result = u(len(elements), 8) + sets.fingerprint(elements) + u(16, 4) + u(len(elements), 8) + sketch
        self.assertEqual(u(1, 1) + u(0, 2) + u(0, 4) + u(0, 2) + result + u(0, 1), h(case["response"]))


class Files(Vectors):
    def setUp(self):
        self.vectors = load("capsule-files.json")

    def kept(self, records):
        return [(h(it["header"]), h(it["body"]), it["signature"] and h(it["signature"])) for it in records]

    def test_exports(self):
        for case in self.vectors["exports"]:
            with self.subTest(case["what"]):
                capsule = Capsule(h(case["metadata"]))
                made = write_export(capsule, self.kept(case["epochs"]), self.kept(case["records"]))
                self.assertEqual(made, h(case["file"]))
                read = Export(made)
                self.assertEqual((read.capsule.name, read.count), (capsule.name, case["count"]))
                self.assertEqual(len(read.holes), case["holes"])

    def test_refused_exports(self):
        for case in self.vectors["refused_exports"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: Export(h(case["file"])))

    def test_an_export_is_refused_wherever_it_ends_early(self):
        for case in self.vectors["exports"]:
            whole = h(case["file"])
            for length in range(len(whole)):
                self.assert_refused("BadFile", lambda: Export(whole[:length]))

    def test_proof_files(self):
        for case in self.vectors["proof_files"]["accepted"]:
            with self.subTest(case["what"]):
                read = ProofFile(h(case["file"]))
                self.assertEqual((read.capsule.name, read.record), (h(case["capsule"]), h(case["record"])))
                self.assertEqual((read.is_signed, read.signer), (False, case["vouched_for_by"]))
                self.assertEqual(read.body, case["body"] and h(case["body"]))
                self.assertEqual(read.path, hexes(case["path"]))

    def test_refused_proof_files(self):
        for case in self.vectors["proof_files"]["refused"]:
            with self.subTest(case["what"]):
                self.assert_refused(case["code"], lambda: ProofFile(h(case["file"])))


if __name__ == "__main__":
    unittest.main()
