-- Wireshark and tshark: the recovery option of bentpipe's nodes (IPv6 hop-by-hop option 0x3E, docs/design/018-nodes.md), and the messages between satellites
-- (destination option 0x1E).
--
--   tshark -X lua_script:nodes.lua -r terminal.pcap -T fields -e satguard.hseq -e satguard.hack.first -e satguard.hack.last -e satguard.fseq
--
-- Wireshark parses the headers itself and leaves the content of experimental options to this script.

local satguard = Proto("satguard", "Loss recovery on a hop")

local HAS_HSEQ, HAS_HACK, HAS_FSEQ = 1, 2, 4
local KINDS = { [0] = "forwarded packet", [1] = "copy", [2] = "acknowledged", [3] = "withdrawn" }

local fields = {
    hseq = ProtoField.uint16("satguard.hseq", "Number on this hop (HSeq)"),
    hack_first = ProtoField.uint16("satguard.hack.first", "Acknowledged, first (HAck)"),
    hack_last = ProtoField.uint16("satguard.hack.last", "Acknowledged, last (HAck)"),
    fseq = ProtoField.uint16("satguard.fseq", "Number in the flow (FSeq)"),
    flags = ProtoField.uint8("satguard.flags", "Flags", base.HEX),
    beam = ProtoField.uint8("satguard.beam", "Beam"),
    kind = ProtoField.uint8("satguard.tunnel.kind", "Message between satellites", base.DEC, KINDS),
    number = ProtoField.uint32("satguard.tunnel.number", "Number of the copy"),
    last = ProtoField.uint32("satguard.tunnel.last", "Last number"),
}
satguard.fields = { fields.hseq, fields.hack_first, fields.hack_last, fields.fseq, fields.flags, fields.beam, fields.kind, fields.number, fields.last }

local malformed = ProtoExpert.new("satguard.malformed", "Option of another length", expert.group.MALFORMED, expert.severity.ERROR)
satguard.experts = { malformed }

-- Every experimental option, with its type, which stands two octets before its content.
local content = Field.new("ipv6.opt.experimental")

local OPTION, OPTION_LENGTH, TUNNEL, TUNNEL_LENGTH = 0x3e, 10, 0x1e, 12

local function add_option(tree, range, words)
    local flags = range(8, 1):uint()
    tree:add(fields.flags, range(8, 1))
    if bit.band(flags, HAS_HSEQ) ~= 0 then
        tree:add(fields.hseq, range(0, 2))
        table.insert(words, "HSeq " .. range(0, 2):uint())
    end
    if bit.band(flags, HAS_HACK) ~= 0 then
        tree:add(fields.hack_first, range(2, 2))
        tree:add(fields.hack_last, range(4, 2))
        table.insert(words, "HAck " .. range(2, 2):uint() .. "-" .. range(4, 2):uint())
    end
    if bit.band(flags, HAS_FSEQ) ~= 0 then
        tree:add(fields.fseq, range(6, 2))
        table.insert(words, "FSeq " .. range(6, 2):uint())
    end
    tree:add(fields.beam, range(9, 1))
end

local function add_message(tree, range, words)
    local kind = range(0, 1):uint()
    tree:add(fields.kind, range(0, 1))
    table.insert(words, KINDS[kind] or "unknown message")
    if kind ~= 0 then
        tree:add(fields.number, range(4, 4))
    end
    if kind == 2 then
        tree:add(fields.last, range(8, 4))
    end
end

function satguard.dissector(buffer, packet, root)
    local words = {}
    for _, info in ipairs({ content() }) do
        local at, length = info.offset, info.len
        if at >= 2 and at + length <= buffer:len() then
            local option = buffer(at - 2, 1):uint()
            if option == OPTION or option == TUNNEL then
                local tree = root:add(satguard, buffer(at - 2, length + 2))
                if option == OPTION and length == OPTION_LENGTH then
                    add_option(tree, buffer(at, length), words)
                elseif option == TUNNEL and length == TUNNEL_LENGTH then
                    add_message(tree, buffer(at, length), words)
                else
                    tree:add_proto_expert_info(malformed)
                end
            end
        end
    end
    if #words > 0 then
        packet.cols.info:append(" [" .. table.concat(words, ", ") .. "]")
    end
end

register_postdissector(satguard)
