// Decoder of the avatar3d wire format for browsers: packets as they come over a WebSocket, in order, to motion codes.
// All numbers come from wire_layout.js, which tools/wire_tables.py writes from avatar3d/motion/wire_layout.py; the walk through
// them is that of avatar3d/motion/wire.py, and both are held to the same golden vectors.

import { LAYOUT } from "./wire_layout.js";

const { groups, headers, kinds, zeros } = LAYOUT;
const KEPT_FRAMES = 64;
const HALF = 1 << (LAYOUT.probabilityBits - 1);

/** Binary range decoder; gives bits for any bytes. */
class Reader {
  constructor(data) {
    this.data = data;
    this.place = 4;
    this.code = 0;
    for (let i = 0; i < 4; i++) this.code = this.code * 256 + (data[i] ?? 0);
    this.range = 0xffffffff;
    this.chances = Uint16Array.from(LAYOUT.starts);
  }

  bit(context) {
    const chance = context < 0 ? HALF : this.chances[context];
    const bound = (this.range >>> LAYOUT.probabilityBits) * chance;
    const bit = this.code < bound ? 0 : 1;
    if (bit) {
      this.code -= bound;
      this.range -= bound;
    } else {
      this.range = bound;
    }
    if (context >= 0) {
      this.chances[context] = bit
        ? chance - (chance >> LAYOUT.adapt)
        : chance + ((2 * HALF - chance) >> LAYOUT.adapt);
    }
    while (this.range < LAYOUT.top) {
      this.code = (this.code * 256 + (this.data[this.place] ?? 0)) % 2 ** 32;
      this.range = (this.range * 256) % 2 ** 32;
      this.place++;
    }
    return bit;
  }

  /** One integer: whether it is 0, its sign unless known to be positive, its size as an Exp-Golomb code of order 0. */
  signed(zero, family, sign, positive) {
    if (!this.bit(zero)) return 0;
    const negative = positive ? 0 : this.bit(family + sign);
    const prefix = family + LAYOUT.signs;
    let bits = 0;
    while (bits < LAYOUT.maxBits && this.bit(prefix + Math.min(bits, LAYOUT.prefixBins - 1))) bits++;
    let size = 1;
    for (let place = bits - 1; place >= 0; place--) {
      const first = prefix + LAYOUT.prefixBins + Math.min(bits, LAYOUT.prefixBins) - 1;
      size = size * 2 + this.bit(place === bits - 1 ? first : -1);
    }
    return negative ? -size : size;
  }
}

const classOf = (value, bounds) => bounds.reduce((sum, bound) => sum + (value > bound), 0);
const family = (name) => LAYOUT.families.indexOf(name) * LAYOUT.familySize;

/** The integers of a payload, or null where a value leaves its bounds. reference: those of `age` packets before, null: key frame. */
export function decodeFrame(data, reference, age) {
  const coder = new Reader(data);
  const key = reference === null;
  const frame = [];
  const changes = [];
  const aged = classOf(age, LAYOUT.ages);
  let before = 0;
  for (let place = 0; place < groups[0].count; place++) {
    const partner = LAYOUT.partner[place];
    let guess, change;
    if (key) {
      guess = partner >= 0 ? frame[partner] : 0;
      change = coder.signed(zeros.key + place, LAYOUT.keyFamily[place] * LAYOUT.familySize, 0, guess === 0);
    } else {
      guess = reference[place];
      const other = partner >= 0 ? changes[partner] : 0;
      const like = partner < 0 ? 0 : 1 + Math.min(Math.abs(other), 2);
      const zero = zeros.delta + ((aged * 3 + classOf(guess, LAYOUT.sizes)) * 4 + like) * 2 + (before !== 0);
      const moving = Math.abs(before) > 2 || Math.abs(other) > 2;
      const sign = other === 0 ? 0 : other > 0 ? 1 : 2;
      change = coder.signed(zero, family(moving ? "weight moving" : "weight calm"), sign, guess === 0);
      before = change;
    }
    frame.push(guess + change);
    changes.push(change);
  }
  groups.slice(1).forEach((group, number) => {
    const first = frame.length;
    const same = zeros.same[group.name];
    const changed = same === undefined || coder.bit(same + key);
    const named = LAYOUT.families.includes(`${group.name} key`) && key ? `${group.name} key` : group.name;
    for (let place = first; place < first + group.count; place++) {
      const partner = key && group.name === "confidence" ? LAYOUT.confidencePartner[place - first] : -1;
      const base = partner >= 0 ? frame[first + partner] : key ? 0 : reference[place];
      frame.push(changed ? base + coder.signed(zeros.other + 2 * number + key, family(named), 0, false) : base);
    }
  });
  let place = 0;
  for (const group of groups) {
    for (let i = 0; i < group.count; i++, place++) {
      if (frame[place] < group.low || frame[place] > group.high) return null;
    }
  }
  return frame;
}

/** A frame as a motion code: weights by ARKit name, rotation xyzw, translation (m), gaze [[yaw, pitch], [yaw, pitch]] (rad). */
export function restore(frame) {
  const code = {};
  let place = 0;
  for (const group of groups) {
    code[group.name] = frame.slice(place, place + group.count).map((value) => value * group.step);
    place += group.count;
  }
  const [x, y, z] = code.rotation;
  const angle = Math.hypot(x, y, z);
  const scale = angle < 1e-9 ? 0.5 : Math.sin(angle / 2) / angle;
  code.rotation = [x * scale, y * scale, z * scale, Math.cos(angle / 2)];
  code.gaze = [code.gaze.slice(0, 2), code.gaze.slice(2)];
  code.weights = Object.fromEntries(LAYOUT.weightNames.map((name, i) => [name, Math.min(1, code.weights[i])]));
  return code;
}

/** The number nearest to `near`, not negative, whose low bits are these. */
function whole(low, bits, near) {
  const span = 2 ** bits;
  const half = span / 2;
  const number = near + ((((low - near + half) % span) + span) % span) - half;
  return number >= 0 ? number : number + span;
}

/** How many low bits of a number a compact header tells. */
const lowBits = (name) => 8 * headers[kinds.compact].find((field) => field.name === name).bytes;

/** Big-endian bytes of a number below 2**53. */
function bytesOf(number, count) {
  return Array.from({ length: count }, (_, i) => Math.floor(number / 2 ** (8 * (count - 1 - i))) % 256);
}

/** Numbers of a packet's header and where its payload begins, or null for what is no packet with a frame. */
function readHeader(packet) {
  if (packet.length === 0 || packet.length > LAYOUT.maxPacket || (packet[0] >> 4 !== LAYOUT.version && packet[0] >> 4 !== LAYOUT.encrypted)) {
    return null;
  }
  const low = packet[0] & 15;
  const kind = low <= LAYOUT.maxReference ? kinds.compact : low;
  if (kind !== kinds.compact && kind !== kinds.full) return null;
  const header = { kind, reference: kind === kinds.compact ? low : 0, encrypted: packet[0] >> 4 === LAYOUT.encrypted };
  let place = 1;
  for (const field of headers[kind].slice(1)) {
    const bytes = packet.subarray(place, (place += field.bytes));
    // A session is wider than a number: text of one length, which sorts as the numbers do.
    if (field.name === "session") header.session = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    else header[field.name] = bytes.reduce((sum, byte) => sum * 256 + byte, 0);
  }
  if (packet.length < place + LAYOUT.tagBytes) return null;
  return { ...header, start: place };
}

// --- keys

/** The Salsa20/8 core (RFC 7914, 3) of 16 words, in place; x: room for 16 words. */
function salsa(words, x) {
  x.set(words);
  const mix = (to, a, b, bits) => {
    const sum = (x[a] + x[b]) | 0;
    x[to] ^= (sum << bits) | (sum >>> (32 - bits));
  };
  const quarter = (a, b, c, d) => {
    mix(b, a, d, 7);
    mix(c, b, a, 9);
    mix(d, c, b, 13);
    mix(a, d, c, 18);
  };
  for (let round = 0; round < 4; round++) {
    quarter(0, 4, 8, 12);
    quarter(5, 9, 13, 1);
    quarter(10, 14, 2, 6);
    quarter(15, 3, 7, 11);
    quarter(0, 1, 2, 3);
    quarter(5, 6, 7, 4);
    quarter(10, 11, 8, 9);
    quarter(15, 12, 13, 14);
  }
  for (let i = 0; i < 16; i++) words[i] += x[i];
}

/** scryptBlockMix (RFC 7914, 4) of 2r blocks of 16 words, in place; `other` is as large. */
function blockMix(block, other, room) {
  const blocks = block.length / 16;
  const last = block.slice(-16);
  for (let i = 0; i < blocks; i++) {
    for (let k = 0; k < 16; k++) last[k] ^= block[16 * i + k];
    salsa(last, room);
    other.set(last, 16 * (i % 2 ? (blocks + i - 1) / 2 : i / 2));
  }
  block.set(other);
}

/** 32 bytes of a password by scrypt (RFC 7914) with p = 1, which browsers lack; takes 128 · cost · r bytes for its time. */
async function scrypt(password, salt, cost, r) {
  const key = await crypto.subtle.importKey("raw", password, "PBKDF2", false, ["deriveBits"]);
  const stretch = async (salt, bytes) =>
    crypto.subtle.deriveBits({ name: "PBKDF2", hash: "SHA-256", salt, iterations: 1 }, key, 8 * bytes);
  const block = new Uint32Array(await stretch(salt, 128 * r)); // little-endian, as every machine with a browser is
  const [other, room] = [new Uint32Array(block.length), new Uint32Array(16)];
  const table = new Uint32Array(cost * block.length);
  for (let i = 0; i < cost; i++) {
    table.set(block, i * block.length);
    blockMix(block, other, room);
  }
  for (let i = 0; i < cost; i++) {
    const from = (block[block.length - 16] & (cost - 1)) * block.length;
    for (let k = 0; k < block.length; k++) block[k] ^= table[from + k];
    blockMix(block, other, room);
  }
  return new Uint8Array(await stretch(new Uint8Array(block.buffer), 32));
}

const text = (value) => new TextEncoder().encode(value);

async function hmac(key, data) {
  const imported = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return new Uint8Array(await crypto.subtle.sign("HMAC", imported, data));
}

/** The keys of a token (avatar3d/motion/seal.py): for tags, ciphers and the proof to a WebSocket's other end. */
async function keysOf(token) {
  const [cost, r] = LAYOUT.scrypt;
  const stretched = await scrypt(text(token), text(LAYOUT.keyLabel), cost, r);
  const [tag, cipher, proof] = await Promise.all(["tag\0", "cipher\0", "websocket\0"].map((purpose) => hmac(stretched, text(purpose))));
  return {
    tag: await crypto.subtle.importKey("raw", tag, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]),
    cipher: await crypto.subtle.importKey("raw", cipher, "AES-CTR", false, ["encrypt"]),
    proof,
  };
}

/** Whether two byte strings are the same, in a time that does not tell where they differ. */
const same = (a, b) => a.length === b.length && a.reduce((wrong, byte, i) => wrong | (byte ^ b[i]), 0) === 0;

/** Follows one stream over a link that keeps packets in order (a WebSocket). Needs crypto.subtle: https, or a page of localhost. */
export class WireReceiver {
  /** token: the text both ends share. plain: whether packets that are not encrypted are believed. */
  constructor(token, { plain = false } = {}) {
    this.keys = keysOf(token);
    this.plain = plain;
    this.session = null;
    this.sequence = -1;
    this.time = 0;
    this.frames = new Map();
    this.refused = 0;
  }

  /** The code of a packet (Uint8Array), with `time` in seconds of the sender's clock and `sequence`; null for what is not to be believed. */
  async accept(packet) {
    const code = await this.#accept(packet);
    if (code === null) this.refused++;
    return code;
  }

  async #accept(packet) {
    const header = readHeader(packet);
    if (header === null || (header.kind === kinds.full ? header.layout !== LAYOUT.id : this.session === null)) return null;
    if (!header.encrypted && !this.plain) return null;
    const full = header.kind === kinds.full;
    const session = full ? header.session : this.session;
    const sequence = full ? header.sequence : whole(header.sequence, lowBits("sequence"), this.sequence);
    const time = full ? header.time : whole(header.time, lowBits("time"), this.time);
    if (this.session !== null && (session < this.session || (session === this.session && sequence <= this.sequence))) return null;
    const end = packet.length - LAYOUT.tagBytes;
    const keys = await this.keys;
    const named = [...session.match(/../g).map((byte) => parseInt(byte, 16)), ...bytesOf(sequence, LAYOUT.sequenceBytes)];
    const sealed = Uint8Array.from([...named, ...bytesOf(time, LAYOUT.timeBytes), ...packet.subarray(0, end)]);
    const tag = new Uint8Array(await crypto.subtle.sign("HMAC", keys.tag, sealed));
    if (!same(packet.subarray(end), tag.subarray(0, LAYOUT.tagBytes))) return null;
    let data = packet.subarray(header.start, end);
    if (header.encrypted) {
      const counter = Uint8Array.from({ length: 16 }, (_, i) => named[i] ?? 0);
      data = new Uint8Array(await crypto.subtle.encrypt({ name: "AES-CTR", counter, length: 32 }, keys.cipher, data));
    }
    if (session !== this.session) this.frames.clear();
    [this.session, this.sequence, this.time] = [session, sequence, time];
    const reference = header.reference ? this.frames.get(sequence - header.reference) : null;
    if (reference === undefined) return null;
    const frame = decodeFrame(data, reference, header.reference);
    if (frame === null) return null;
    this.frames.set(sequence, frame);
    this.frames.delete(sequence - KEPT_FRAMES);
    return { ...restore(frame), time: (time * LAYOUT.tickNs) / 1e9, sequence };
  }
}

/**
 * The codes of a sender that serves at `address` (ws://HOST:PORT), one after the other, until it goes away or the caller leaves the
 * loop. Both ends show that they know the token without sending it. Throws where the other end does not, or cannot be reached.
 */
export async function* receive(address, token, { plain = false } = {}) {
  const receiver = new WireReceiver(token, { plain });
  const { proof } = await receiver.keys;
  const socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  const came = [];
  let wake = () => {};
  socket.onmessage = ({ data }) => {
    came.push(new Uint8Array(data));
    wake();
  };
  socket.onclose = ({ reason }) => {
    came.push(reason || "the sender has gone");
    wake();
  };
  const next = async () => {
    while (came.length === 0) await new Promise((resolve) => (wake = resolve));
    if (typeof came[0] === "string") throw new Error(came[0]);
    return came.shift();
  };
  try {
    const theirs = await next();
    const ours = crypto.getRandomValues(new Uint8Array(16));
    const proofOf = (who) => hmac(proof, Uint8Array.from([...text(who), ...theirs, ...ours]));
    if (theirs.length !== ours.length) throw new Error("the sender is of another version of avatar3d");
    socket.send(Uint8Array.from([...ours, ...(await proofOf("listener"))]));
    if (!same(await next(), await proofOf("sender"))) throw new Error("the sender does not know this token");
    for (;;) {
      const code = await receiver.accept(await next());
      if (code !== null) yield code;
    }
  } finally {
    socket.close();
  }
}
