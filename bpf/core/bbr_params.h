/* Options and parameters of versions 2 and 3 of BBR: twins of crates/cc/src/bbr3/options.rs and params.rs. */
#ifndef BENTPIPE_CORE_BBR_PARAMS_H
#define BENTPIPE_CORE_BBR_PARAMS_H

#include "fixed.h"

#define BP_BBR3_OPTIONS(OPTION) \
    OPTION(rules) OPTION(startup_pacing_gain) OPTION(startup_cwnd_gain) OPTION(drain_gain) OPTION(probe_up_gain) OPTION(probe_down_gain) \
    OPTION(probe_cruise_gain) OPTION(probe_refill_gain) OPTION(cwnd_gain) OPTION(probe_up_cwnd_gain) OPTION(probe_rtt_win_ms) \
    OPTION(probe_rtt_mode_ms) OPTION(probe_rtt_cwnd_gain) OPTION(min_rtt_win_s) OPTION(loss_thresh) OPTION(beta) OPTION(inflight_headroom) \
    OPTION(full_bw_thresh) OPTION(full_bw_cnt) OPTION(full_loss_cnt) OPTION(bw_probe_base_ms) OPTION(bw_probe_rand_ms) \
    OPTION(bw_probe_max_rounds) OPTION(bw_probe_rand_rounds) OPTION(extra_acked_gain) OPTION(extra_acked_win_rtts) OPTION(tso_rtt_shift) \
    OPTION(pacing_margin_percent) OPTION(loss_probe_recovery) OPTION(ecn_low) OPTION(ecn_alpha_gain) OPTION(ecn_alpha_init) \
    OPTION(ecn_factor) OPTION(ecn_thresh) OPTION(ecn_max_rtt_ms) OPTION(ecn_reprobe_gain) OPTION(full_ecn_cnt)
#define BP_BBR3_NUMBER(option) BP_BBR3_##option,
enum bp_bbr3_option { BP_BBR3_OPTIONS(BP_BBR3_NUMBER) BP_BBR3_OPTION_COUNT };

#define BP_BBR2_OPTIONS(OPTION) \
    OPTION(high_gain) OPTION(startup_cwnd_gain) OPTION(drain_gain) OPTION(probe_up_gain) OPTION(probe_down_gain) OPTION(probe_cruise_gain) \
    OPTION(probe_refill_gain) OPTION(cwnd_gain) OPTION(probe_rtt_win_ms) OPTION(probe_rtt_mode_ms) OPTION(probe_rtt_cwnd_gain) \
    OPTION(min_rtt_win_s) OPTION(loss_thresh) OPTION(beta) OPTION(inflight_headroom) OPTION(full_bw_thresh) OPTION(full_bw_cnt) \
    OPTION(full_loss_cnt) OPTION(bw_probe_base_ms) OPTION(bw_probe_rand_ms) OPTION(bw_probe_max_rounds) OPTION(bw_probe_rand_rounds) \
    OPTION(bw_probe_pif_gain) OPTION(extra_acked_gain) OPTION(extra_acked_win_rtts) OPTION(tso_rtt_shift) OPTION(pacing_margin_percent) \
    OPTION(loss_probe_recovery) OPTION(ecn_enable) OPTION(ecn_alpha_gain) OPTION(ecn_alpha_init) OPTION(ecn_factor) OPTION(ecn_thresh) \
    OPTION(ecn_max_rtt_ms) OPTION(ecn_reprobe_gain) OPTION(full_ecn_cnt)
#define BP_BBR2_NUMBER(option) BP_BBR2_##option,
enum bp_bbr2_option { BP_BBR2_OPTIONS(BP_BBR2_NUMBER) BP_BBR2_OPTION_COUNT };

/* Numbers of the choices of `rules`. */
enum { BP_BBR3_RULES_DRAFT, BP_BBR3_RULES_LINUX };

enum bp_bbr_rules { BP_BBR_DRAFT, BP_BBR_LINUX3, BP_BBR_LINUX2 };

/* Gains and ratios [1/256], times [ns]. */
struct bp_bbr_params {
    u64 rules;
    u64 startup_pacing_gain, startup_cwnd_gain, drain_gain;
    u64 up_gain, down_gain, cruise_gain, refill_gain;
    u64 cwnd_gain, up_cwnd_gain, probe_rtt_cwnd_gain;
    u64 probe_rtt_window, probe_rtt_duration, min_rtt_window;
    u64 loss_threshold, beta, headroom;
    u64 full_bw_growth, full_bw_rounds;
    u64 full_loss_count, full_ecn_rounds; /* 0: never */
    u64 probe_wait_base, probe_wait_random;
    u64 probe_max_rounds, probe_random_rounds;
    u64 probe_in_flight_gain; /* version 2 */
    u64 extra_acked_gain, extra_acked_rounds;
    u64 tso_rtt_shift, pacing_margin_percent, tail_loss_counts;
    u64 ecn, ecn_alpha_gain, ecn_alpha_init, ecn_factor, ecn_threshold, ecn_reprobe_gain;
    u64 ecn_max_rtt; /* 0: marks count at any RTT */
};

/* Returns `part`/256 of `whole`, rounded down. */
BP_INLINE u64 bp_bbr_part(u64 whole, u64 part) { return bp_mul_shift(whole, part, BP_UNIT_SHIFT); }

/* Sets the parameters that the two versions compute alike; W returns the word of an option. */
#define BP_BBR_SET_COMMON_PARAMS(p, W) \
    do { \
        (p)->up_gain = bp_ratio(W(probe_up_gain)); \
        (p)->cruise_gain = bp_ratio(W(probe_cruise_gain)); \
        (p)->refill_gain = bp_ratio(W(probe_refill_gain)); \
        (p)->cwnd_gain = bp_ratio(W(cwnd_gain)); \
        (p)->probe_rtt_cwnd_gain = bp_ratio(W(probe_rtt_cwnd_gain)); \
        (p)->probe_rtt_duration = W(probe_rtt_mode_ms); \
        (p)->min_rtt_window = W(min_rtt_win_s); \
        (p)->loss_threshold = bp_ratio(W(loss_thresh)); \
        (p)->beta = bp_ratio(W(beta)); \
        (p)->headroom = bp_ratio(W(inflight_headroom)); \
        (p)->full_bw_growth = bp_ratio(W(full_bw_thresh)); \
        (p)->full_bw_rounds = W(full_bw_cnt); \
        (p)->full_loss_count = W(full_loss_cnt); \
        (p)->full_ecn_rounds = W(full_ecn_cnt); \
        (p)->probe_wait_base = W(bw_probe_base_ms); \
        (p)->probe_wait_random = W(bw_probe_rand_ms); \
        (p)->probe_max_rounds = W(bw_probe_max_rounds); \
        (p)->probe_random_rounds = W(bw_probe_rand_rounds); \
        (p)->extra_acked_gain = bp_ratio(W(extra_acked_gain)); \
        (p)->pacing_margin_percent = W(pacing_margin_percent); \
        (p)->tail_loss_counts = W(loss_probe_recovery); \
        (p)->ecn_alpha_gain = bp_ratio(W(ecn_alpha_gain)); \
        (p)->ecn_alpha_init = bp_ratio(W(ecn_alpha_init)); \
        (p)->ecn_factor = bp_ratio(W(ecn_factor)); \
        (p)->ecn_threshold = bp_ratio(W(ecn_thresh)); \
        (p)->ecn_reprobe_gain = bp_ratio(W(ecn_reprobe_gain)); \
        (p)->ecn_max_rtt = W(ecn_max_rtt_ms); \
    } while (0)

/* The gains that Linux's rules have unless the option is set: 1000/2885 and 0.91. */
#define BP_BBR3_LINUX_DRAIN_GAIN (BP_UNIT * 1000 / 2885)
#define BP_BBR3_LINUX_DOWN_GAIN (BP_UNIT * 91 / 100)
#define BP_BBR3_LINUX_EXTRA_ACKED_ROUNDS 5
#define BP_BBR3_LINUX_TSO_RTT_SHIFT 9

/* Sets the parameters of version 3 from options that begin at word `first`: another controller's options may stand before them. */
BP_INLINE void bp_bbr_params_3(struct bp_bbr_params *p, const struct bp_options *options, const u32 first)
{
#define BP_BBR3_WORD(name) options->word[first + BP_BBR3_##name]
/* The option, or the rule's value unless the user set the option. */
#define BP_BBR3_BY_RULE(name, value, of_rule) (is_linux && !(options->is_set >> (first + BP_BBR3_##name) & 1) ? (of_rule) : (value))
    int is_linux = BP_BBR3_WORD(rules) == BP_BBR3_RULES_LINUX;

    BP_BBR_SET_COMMON_PARAMS(p, BP_BBR3_WORD);
    p->rules = is_linux ? BP_BBR_LINUX3 : BP_BBR_DRAFT;
    p->startup_pacing_gain = bp_gain(BP_BBR3_WORD(startup_pacing_gain));
    p->startup_cwnd_gain = bp_ratio(BP_BBR3_WORD(startup_cwnd_gain));
    p->drain_gain = BP_BBR3_BY_RULE(drain_gain, bp_ratio(BP_BBR3_WORD(drain_gain)), BP_BBR3_LINUX_DRAIN_GAIN);
    p->down_gain = BP_BBR3_BY_RULE(probe_down_gain, bp_ratio(BP_BBR3_WORD(probe_down_gain)), BP_BBR3_LINUX_DOWN_GAIN);
    p->up_cwnd_gain = bp_ratio(BP_BBR3_WORD(probe_up_cwnd_gain));
    p->probe_rtt_window = BP_BBR3_WORD(probe_rtt_win_ms);
    p->probe_in_flight_gain = 0;
    p->extra_acked_rounds = BP_BBR3_BY_RULE(extra_acked_win_rtts, BP_BBR3_WORD(extra_acked_win_rtts), BP_BBR3_LINUX_EXTRA_ACKED_ROUNDS);
    p->tso_rtt_shift = BP_BBR3_BY_RULE(tso_rtt_shift, BP_BBR3_WORD(tso_rtt_shift), BP_BBR3_LINUX_TSO_RTT_SHIFT);
    p->ecn = BP_BBR3_WORD(ecn_low);
}

/* Sets the parameters of version 2. */
BP_INLINE void bp_bbr_params_2(struct bp_bbr_params *p, const struct bp_options *options)
{
#define BP_BBR2_WORD(name) options->word[BP_BBR2_##name]
    BP_BBR_SET_COMMON_PARAMS(p, BP_BBR2_WORD);
    p->rules = BP_BBR_LINUX2;
    p->startup_pacing_gain = bp_gain(BP_BBR2_WORD(high_gain));
    p->startup_cwnd_gain = bp_gain(BP_BBR2_WORD(startup_cwnd_gain));
    p->drain_gain = bp_ratio(BP_BBR2_WORD(drain_gain));
    p->down_gain = bp_ratio(BP_BBR2_WORD(probe_down_gain));
    p->up_cwnd_gain = p->cwnd_gain;
    p->probe_rtt_window = bp_min(BP_BBR2_WORD(probe_rtt_win_ms), BP_BBR2_WORD(min_rtt_win_s));
    p->probe_in_flight_gain = bp_ratio(BP_BBR2_WORD(bw_probe_pif_gain));
    p->extra_acked_rounds = BP_BBR2_WORD(extra_acked_win_rtts);
    p->tso_rtt_shift = BP_BBR2_WORD(tso_rtt_shift);
    p->ecn = BP_BBR2_WORD(ecn_enable);
}

#endif
