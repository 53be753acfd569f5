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

function bytesOf(number, count) {
  return Array.from({ length: count }, (_, i) => Math.floor(number / 2 ** (8 * (count - 1 - i))) % 256);
}

/** Numbers of a packet's header and where its payload begins, or null for what is no packet with a frame. */
function readHeader(packet) {
  if (packet.length === 0 || packet.length > LAYOUT.maxPacket || packet[0] >> 4 !== LAYOUT.version) return null;
  const low = packet[0] & 15;
  const kind = low <= LAYOUT.maxReference ? kinds.compact : low;
  if (kind !== kinds.compact && kind !== kinds.full) return null;
  const header = { kind, reference: kind === kinds.compact ? low : 0 };
  let place = 1;
  for (const field of headers[kind].slice(1)) {
    header[field.name] = 0;
    for (let i = 0; i < field.bytes; i++) header[field.name] = header[field.name] * 256 + (packet[place++] ?? 0);
  }
  if (packet.length < place + LAYOUT.tagBytes) return null;
  return { ...header, start: place };
}

/** Follows one stream over a link that keeps packets in order (a WebSocket). Needs crypto.subtle: https, or a page of localhost. */
export class WireReceiver {
  /** token: the text both ends share. */
  constructor(token) {
    this.key = this.#key(new TextEncoder().encode(token));
    this.session = null;
    this.sequence = -1;
    this.time = 0;
    this.frames = new Map();
    this.refused = 0;
  }

  async #key(token) {
    const how = { name: "HMAC", hash: "SHA-256" };
    const outer = await crypto.subtle.importKey("raw", token, how, false, ["sign"]);
    const key = await crypto.subtle.sign("HMAC", outer, new TextEncoder().encode(LAYOUT.keyLabel));
    return crypto.subtle.importKey("raw", key, how, false, ["sign"]);
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
    const full = header.kind === kinds.full;
    const session = full ? header.session : this.session;
    const sequence = full ? header.sequence : whole(header.sequence, lowBits("sequence"), this.sequence);
    const time = full ? header.time : whole(header.time, lowBits("time"), this.time);
    if (this.session !== null && (session < this.session || (session === this.session && sequence <= this.sequence))) return null;
    const end = packet.length - LAYOUT.tagBytes;
    const sealed = [...bytesOf(session, 5), ...bytesOf(sequence, 4), ...bytesOf(time, 5), ...packet.subarray(0, end)];
    const tag = new Uint8Array(await crypto.subtle.sign("HMAC", await this.key, Uint8Array.from(sealed)));
    if (!packet.subarray(end).every((byte, i) => byte === tag[i])) return null;
    if (session !== this.session) this.frames.clear();
    [this.session, this.sequence, this.time] = [session, sequence, time];
    const reference = header.reference ? this.frames.get(sequence - header.reference) : null;
    if (reference === undefined) return null;
    const frame = decodeFrame(packet.subarray(header.start, end), reference, header.reference);
    if (frame === null) return null;
    this.frames.set(sequence, frame);
    this.frames.delete(sequence - KEPT_FRAMES);
    return { ...restore(frame), time: (time * LAYOUT.tickNs) / 1e9, sequence };
  }
}
